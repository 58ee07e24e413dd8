package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/credential"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/ladder"
	"github.com/onecall-mcp/onecall/steps/shape"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
	"github.com/onecall-mcp/onecall/steps/source/replay"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// App is one configuration, assembled from its packages.
type App struct {
	Catalog         *steps.Catalog
	Counter         budget.Counter
	Engine          *chain.Engine
	Journal         *journal.Journal // nil: runs are not recorded
	MaxRequestBytes int64

	process     *process
	generation  int // counts the configurations served so far, including this one
	config      *config.File
	keptSurface bool      // the configuration names another surface than the server was started with, and over stdio that one stays
	files       fileState // the files the configuration was read from; only when serving

	settings          *steps.Settings
	scrubber          *secret.Scrubber
	sources           map[string]*sharedSource     // sources that stay open through a reload, by name
	servers           map[string]*mcpsource.Source // the opened servers of mcpServers, by source name
	personal          map[string]bool              // the servers whose lists each caller has for itself
	services          []*openapi.Source            // OpenAPI services with a document at a URL
	unusableDocuments map[string]bool              // OpenAPI sources without a usable document, by name
	chains            *savedChains                 // nil: there are no saved chains
	cache             *cache.Cache
	dispatch          *groups.Dispatch
	ladder            *ladder.Ladder            // nil: off
	shapes            *shape.Store              // nil: off
	identities        map[string]string         // by source name: the identity that its result shapes are stored under
	callers           *auth.Table               // HTTP callers by token; nil: no tokens are configured
	credentials       *credential.Table         // what callers bring for sources that are called as their callers; nil: there are none
	callerLogins      map[string]*login.Options // how callers log in to sources, by the name of the credential; without stores
	gatewayLogins     map[string]*login.Options // those of onecall itself to MCP servers, by source
	local             string                    // what this machine's user brings (steps.Rights.Credentials); "": nothing, or HTTP is served
	cassette          *replay.Cassette          // nil: functions are really called
	store             budget.Driver
	storeBytes        int64 // the byte limit of store when this app is served
	results           *budget.Results
	state             *state.Source // nil: nothing is kept
	labels            *labels       // nil: there are no flow rules
	toolLock          *toolLock     // nil: functions are served whatever a lock says
	maxTotalTokens    int           // the most tokens of one answer; 0: unlimited

	closers []io.Closer
	used    sync.RWMutex // read-locked by requests to the console of a server, which end before the app closes

	replaced chan struct{} // closed when another app is served in place of this one
}

// Open assembles an app for a command. The caller closes the app. It returns a *config.Error if the configuration is invalid.
func Open(ctx context.Context, o *Options) (*App, error) {
	p := newProcess(o, serverTraits{})
	var opened atomic.Pointer[App]
	if o.Monitor != nil {
		sources := func() []steps.SourceInfo {
			if a := opened.Load(); a != nil {
				return a.Catalog.Sources()
			}
			return nil
		}
		var err error
		if p.stopMonitor, err = p.startMonitor(ctx, o.Monitor, &telemetry.Options{Sources: sources}); err != nil {
			return nil, err
		}
	}
	a, err := p.open(nil)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	opened.Store(a)
	if o.Calls {
		if err := a.awaitLadder(ctx); err != nil {
			return nil, errors.Join(err, a.close(), p.close())
		}
	}
	return a, nil
}

// Close closes the app of a command, the recording last. Most functions are known by then, so it first warns of rungs that name no function
// and, if the command calls functions, of guards that match none. A command that lists functions reports these itself.
func (a *App) Close() error {
	if !a.process.List {
		for _, f := range a.brokenRungs() {
			a.warn(f)
		}
		if a.process.Calls {
			a.warnUnmatchedGuards()
		}
	}
	return errors.Join(a.close(), a.process.close())
}

// open assembles an app from the current configuration. before is the app that it replaces, or nil; before keeps working meanwhile. The
// caller closes the app. On error the app is already closed, and only its configuration and its state of the files can be used.
func (p *process) open(before *App) (*App, error) {
	a := &App{process: p, unusableDocuments: map[string]bool{}, callerLogins: map[string]*login.Options{},
		gatewayLogins: map[string]*login.Options{}, replaced: make(chan struct{})}
	if before != nil {
		a.generation = before.generation + 1
	}
	cfg, faults := a.load()
	if cfg.Unreadable { // further faults would be about an empty configuration
		return a, errors.Join(cfg.Refused(cfg.MergeFaults(faults, len(faults))), a.close())
	}
	if before != nil { // at a reload, a newly unset variable is a fault: setting it would take a restart, and the former source still works
		for pointer, f := range cfg.Unset {
			if before.config.Unset[pointer] == nil {
				faults = append(faults, f)
			}
		}
	}
	p.Redactor.learn(cfg.Secrets)
	for _, w := range cfg.Warnings {
		a.warn(w)
	}
	a.settleSurface(before)
	if err := a.assemble(before, faults); err != nil {
		return a, errors.Join(err, a.close())
	}
	return a, nil
}

// load reads the configuration. When serving it records the state of the files before reading them, so that no change is missed.
func (a *App) load() (*config.File, []*fault.Error) {
	if a.process.serve {
		path, f := config.Find(a.process.Config)
		a.files = fileState{}
		a.files.add("", path)
		if f != nil { // both files exist, and one must be removed
			a.files.add("", config.OtherFile(path))
		}
	}
	cfg, faults := config.Load(a.process.Config)
	a.config = cfg
	if a.files != nil {
		if len(faults) == 0 {
			a.watchChains()
			if config.Or(cfg.ToolLock, "off") != "off" {
				a.files.add("/toolLock", LockFile(cfg.Path))
			}
		}
	}
	return cfg, faults
}

// assemble opens everything the app consists of. Programs are started last, and only if there are no other faults.
func (a *App) assemble(before *App, faults []*fault.Error) error {
	cfg, read := a.config, len(faults)
	if err := a.openRecordings(); err != nil {
		return err
	}
	o, err := a.openSources(cfg, faults, before)
	if err != nil {
		return err
	}
	if a.Counter, err = budget.NewCounter(config.Or(cfg.Tokens.Encoding, ""), config.Or(cfg.Tokens.Factor, 0)); err != nil {
		o.faults = append(o.faults, cfg.FaultAt("/tokens", err))
	}
	o.faults = append(append(o.faults, a.openSurface(cfg, before)...), a.flowFaults()...)
	if len(o.faults) > 0 {
		return cfg.Refused(cfg.MergeFaults(o.faults, read))
	}
	if err = a.startEngine(cfg, a.process.serve, before); err != nil {
		return err
	}
	if o.startServers(); len(o.faults) > 0 {
		return cfg.Refused(cfg.MergeFaults(o.faults, read))
	}
	return nil
}

// openRecordings opens the recording that calls are written to (once per process) or the one that answers calls.
func (a *App) openRecordings() (err error) {
	p := a.process
	switch {
	case p.Record != "" && p.Replay != "":
		return fault.New(fault.BadRequest, "--record and --replay exclude each other: a replay makes no calls to record")
	case p.Record != "" && p.recording == nil:
		p.recording, err = p.openRecording()
	case p.Replay != "":
		if a.cassette, err = replay.Open(p.Replay); err == nil {
			for _, w := range a.cassette.Warnings() {
				a.warn(w)
			}
			err = a.takeRecordedSettings()
		}
	}
	return err
}

// defaultServedTokens is the token budget of an answer to an MCP client unless the configuration sets one.
const defaultServedTokens = 10_000

// defaultStore returns where results are stored if the configuration does not say: "memory" for a server without workers, "disk" for
// a command and for a server with workers, which must then be on the same machine.
func (a *App) defaultStore() string {
	if a.process.serve && !a.hasWorkers() {
		return "memory"
	}
	return "disk"
}

// startEngine creates the engine. By default a server has a token budget, and a command has none.
func (a *App) startEngine(c *config.File, serve bool, before *App) error {
	tokens, hint := 0, "onecall tools lists the functions"
	switch {
	case serve:
		tokens, hint = defaultServedTokens, "the tool search finds functions"
	case c.Path == "":
		hint = "no onecall.yaml was found; onecall tools lists the functions"
	}
	a.maxTotalTokens = config.Or(c.Budget.MaxTotalTokens, tokens)
	if err := a.openResults(&c.Config, a.defaultStore()); err != nil {
		return c.Refused([]*fault.Error{c.FaultAt("/results", err)})
	}
	a.openLabels(&c.Config, before)
	runs, err := a.openJournal(&c.Config)
	if err != nil {
		return c.Refused([]*fault.Error{c.FaultAt("/journal", err)})
	}
	if a.Journal = runs; a.credentials != nil && runs != nil {
		a.credentials.MAC = runs.MAC
	}
	a.openLocal()
	a.MaxRequestBytes = int64(config.Or(c.Limits.MaxRequestBytes, chain.DefaultMaxRequestBytes))
	a.Engine, err = chain.New(&chain.Options{
		Functions:       a.Functions(),
		Counter:         a.Counter,
		Results:         a.results,
		Journal:         runs,
		Scope:           a.Scope(),
		Approve:         config.Or(c.Approve, ""),
		ApproveByPerson: config.Or(c.ApproveBy, "") == "person",
		Console:         a.consolePage(),
		Flows:           c.Flows.EngineRules(),
		MaxTotalTokens:  a.maxTotalTokens,
		ProbeAbove:      config.Or(c.Results.ProbeAbove, 0),
		LeanAbove:       leanAbove(&c.Config),
		WholeResults:    a.process.Record != "" || a.process.Replay != "",
		Hoist:           c.Hoist,
		Rung:            a.rung(),
		MaxSteps:        min(config.Or(c.Budget.MaxSteps, chain.DefaultMaxSteps), config.Or(c.Limits.MaxSteps, chain.DefaultMaxSteps)),
		MaxCalls:        config.Or(c.Budget.MaxCalls, 0),
		MaxDuration:     a.maxDuration(),
		MaxConcurrency:  config.Or(c.Limits.MaxConcurrency, 0),
		MaxElements:     config.Or(c.Limits.MaxElements, 0),
		MaxResultBytes:  int64(config.Or(c.Limits.MaxResultBytes, 0)),
		MaxChainBytes:   int64(config.Or(c.Limits.MaxChainBytes, 0)),
		// The factor of four is documented at limits.maxChainBytes (config.Limits).
		MaxRunningBytes: 4 * int64(config.Or(c.Limits.MaxChainBytes, chain.DefaultMaxChainBytes)),
		MaxRequestBytes: a.MaxRequestBytes,
		Admission:       a.process.admission,
		Observer:        a.process.observer(),
		Planned:         a.recordPlanned(),
		ReadState:       a.readState(),
		StateRead:       a.stateRead(),
		ListHint:        hint,
		Lite:            config.Or(c.Lite, false),
	})
	if err != nil {
		return c.Refused([]*fault.Error{c.FaultAt("", err)})
	}
	return nil
}

// defaultServedDuration is how long a chain may run over MCP. Clients move calls of two minutes to the background and may lose the
// answer.
const defaultServedDuration = 110 * time.Second

// maxDuration is how long a chain may run; -1: unlimited, the default of commands.
func (a *App) maxDuration() time.Duration {
	switch ms := a.config.Budget.MaxDurationMs; {
	case ms != nil:
		return time.Duration(*ms) * time.Millisecond
	case a.process.serve:
		return defaultServedDuration
	}
	return -1
}

// Run runs one request. Each run has its own position in the recordings.
func (a *App) Run(ctx context.Context, request []byte, caller *chain.Caller) *chain.Answer {
	if within := a.requestContext(); within != nil {
		ctx = within(ctx, request)
	}
	if caller = a.asLocal(caller); a.labels != nil && (caller == nil || caller.Labels == nil) {
		with := chain.Caller{}
		if caller != nil {
			with = *caller
		}
		with.Labels = a.labelsOf(ctx, with.ID, request)
		caller = &with
	}
	return a.Engine.Run(ctx, request, caller)
}

// asLocal returns the caller of a command with what its calls carry. Other callers have functions of their own, and stay as they are.
func (a *App) asLocal(caller *chain.Caller) *chain.Caller {
	if a.local == "" || caller != nil && caller.Functions != nil {
		return caller
	}
	with := chain.Caller{}
	if caller != nil {
		with = *caller
	}
	with.Rights.Credentials = a.Credentials()
	return &with
}

// Call calls one function, as Engine.Call does, for this machine's user.
func (a *App) Call(ctx context.Context, call *chain.Call, caller *chain.Caller) *chain.Answer {
	return a.Engine.Call(ctx, call, a.asLocal(caller))
}

// requestContext returns a function that prepares the context of a request; nil: contexts need no preparation.
func (a *App) requestContext() func(ctx context.Context, request []byte) context.Context {
	if a.process.recording == nil && a.cassette == nil && (a.ladder == nil || a.process.session == nil) {
		return nil
	}
	return a.context
}

// context adds to ctx the request's position in the recordings and, for a ladder, the client's session.
func (a *App) context(ctx context.Context, request []byte) context.Context {
	if a.ladder != nil && a.process.session != nil && steps.SessionOf(ctx) == nil {
		ctx = steps.WithSession(ctx, a.process.session)
	}
	if a.process.recording == nil && a.cassette == nil {
		return ctx
	}
	name := chainName(request)
	ctx = replay.WithChain(ctx, name)
	if a.cassette != nil {
		ctx = a.cassette.Cursor(ctx, name)
	}
	return ctx
}

// Scrubber returns what removes the configuration's secrets from output.
func (a *App) Scrubber() *secret.Scrubber { return a.scrubber }

// chainName returns the name of the chain in request; "": it has none, or the name is not a string.
func chainName(request []byte) string {
	if !bytes.Contains(request, []byte(`"name"`)) {
		return ""
	}
	name := gjson.GetBytes(request, "name")
	if name.Type != gjson.String {
		return ""
	}
	return name.Str
}

// close closes what the app owns and releases what it shares.
func (a *App) close() error {
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer.Close())
	}
	a.closers = nil
	if err := errors.Join(errs...); err != nil {
		return Failure{err}
	}
	return nil
}

// warn reports a warning, unless this app or the one that it replaced has already had a warning with this text.
func (a *App) warn(f *fault.Error) {
	if a.process.shouldWarn(a.generation, f.Error()) {
		a.process.Reporter.Warn(f)
	}
}
