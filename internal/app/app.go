package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/ladder"
	"github.com/onecall-mcp/onecall/steps/shape"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// App is what one configuration says, put together from its packages.
type App struct {
	Catalog         *steps.Catalog
	Counter         budget.Counter
	Engine          *chain.Engine
	Journal         *journal.Journal // nil: nothing is remembered
	MaxRequestBytes int64

	process    *process
	generation int // of the configurations that were served, this one included
	config     *config.File
	files      fileState // that the configuration was read from, if it is served

	settings          *steps.Settings
	scrubber          *secret.Scrubber
	sources           map[string]*sharedSource     // those that stay open through a reload, by name
	servers           map[string]*mcpsource.Source // those of mcpServers that were opened
	services          []*openapi.Source            // whose documents stand at a URL
	unusableDocuments map[string]bool              // of openapi, by name
	chains            *savedChains                 // nil: there are none
	cache             *cache.Cache
	dispatch          *groups.Dispatch
	ladder            *ladder.Ladder    // nil: calls come in any order
	shapes            *shape.Store      // nil: turned off
	identities        map[string]string // by source: what the shapes of its results belong to
	callers           *auth.Table       // over HTTP, by their tokens; nil: nobody has one
	cassette          *replay.Cassette  // nil: functions are called
	store             budget.Driver
	storeBytes        int64 // the bound of store, when the app is served
	results           *budget.Results
	maxTotalTokens    int // of an answer; 0: none

	closers []io.Closer
}

// Open puts together what the configuration says, for a command. The caller closes the app. A configuration that cannot be used
// is a *config.Error.
func Open(ctx context.Context, o *Options) (*App, error) {
	p := newProcess(o, serving{})
	a, err := p.open(nil)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	if o.Calls {
		if err := a.awaitLadder(ctx); err != nil {
			return nil, errors.Join(err, a.close(), p.close())
		}
	}
	return a, nil
}

// Close closes the app of a command, the recording last. Rungs that name no function are reported then, when most is known: a
// list of the functions reports them by itself.
func (a *App) Close() error {
	if !a.process.List {
		for _, f := range a.brokenRungs() {
			a.warn(f)
		}
		if a.process.Calls {
			a.warnOfIdleGuards()
		}
	}
	return errors.Join(a.close(), a.process.close())
}

// open puts together what the configuration says now. before is the app that it replaces, which goes on meanwhile; nil: there
// is none. The caller closes the app. With an error the app is closed already, and tells only what was read.
func (p *process) open(before *App) (*App, error) {
	a := &App{process: p, unusableDocuments: map[string]bool{}}
	if before != nil {
		a.generation = before.generation + 1
	}
	cfg, faults := a.load()
	if cfg.Unread { // other faults would be those of an empty configuration
		return a, errors.Join(cfg.Refused(cfg.Settled(faults, len(faults))), a.close())
	}
	if before != nil { // no variable can have come: a source that works is not given up for a slip
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
	switch {
	case p.Surface != "":
		cfg.Surface = &p.Surface
	case before != nil && !p.anySurface: // the one client has its tools since it connected
		cfg.Surface = new(surfaceOf(&before.config.Config).String())
	}
	if err := a.assemble(before, faults); err != nil {
		return a, errors.Join(err, a.close())
	}
	return a, nil
}

// load reads the configuration. If it is served its files are looked at before they are read: so no change is missed.
func (a *App) load() (*config.File, []*fault.Error) {
	if a.process.serve {
		path, f := config.Find(a.process.Config)
		a.files = fileState{}
		a.files.add("", path)
		if f != nil { // of which one is to go
			a.files.add("", config.Beside(path))
		}
	}
	cfg, faults := config.Load(a.process.Config)
	a.config = cfg
	if a.files != nil {
		for at, paths := range documentsOf(cfg) {
			a.files.add(at, paths...)
		}
		if len(faults) == 0 {
			a.watchChains()
		}
	}
	return cfg, faults
}

// assemble opens the parts of the app, those last that start programs: only if nothing is wrong with the others.
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
		o.faults = append(o.faults, cfg.Under("/tokens", err))
	}
	o.faults = append(o.faults, a.surface(cfg, before)...)
	if len(o.faults) > 0 {
		return cfg.Refused(cfg.Settled(o.faults, read))
	}
	if err = a.start(cfg, a.process.serve); err != nil {
		return err
	}
	if o.startServers(); len(o.faults) > 0 {
		return cfg.Refused(cfg.Settled(o.faults, read))
	}
	return nil
}

// openRecordings opens the recording that calls are written to, once in a process, or the one that they are answered from.
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
		}
	}
	return err
}

// servedTokens is the token budget of an answer to an MCP client where the configuration says none.
const servedTokens = 10_000

// start makes the engine. What it serves has a token budget, and keeps results in memory, where nothing else is said.
func (a *App) start(c *config.File, serve bool) error {
	tokens, store, hint := 0, "disk", "onecall tools lists the functions"
	if serve {
		tokens, store, hint = servedTokens, "memory", "the tool search finds functions"
	}
	a.maxTotalTokens = config.Or(c.Budget.MaxTotalTokens, tokens)
	if err := a.openResults(&c.Results, store); err != nil {
		return c.Refused([]*fault.Error{c.Under("/results", err)})
	}
	remembers, err := a.openJournal(&c.Config)
	if err != nil {
		return c.Refused([]*fault.Error{c.Under("/journal", err)})
	}
	a.Journal = remembers
	a.MaxRequestBytes = int64(config.Or(c.Limits.MaxRequestBytes, chain.DefaultMaxRequestBytes))
	a.Engine, err = chain.New(&chain.Options{
		Functions:       a.Catalog,
		Counter:         a.Counter,
		Results:         a.results,
		Journal:         remembers,
		Scope:           a.scope(),
		Approve:         config.Or(c.Approve, ""),
		ApproveByPerson: config.Or(c.ApproveBy, "") == "person",
		MaxTotalTokens:  a.maxTotalTokens,
		ProbeAbove:      config.Or(c.Results.ProbeAbove, 0),
		LeanAbove:       leanAbove(&c.Config),
		Hoist:           c.Hoist,
		Rung:            a.rung(),
		MaxSteps:        min(config.Or(c.Budget.MaxSteps, chain.DefaultMaxSteps), config.Or(c.Limits.MaxSteps, chain.DefaultMaxSteps)),
		MaxCalls:        config.Or(c.Budget.MaxCalls, 0),
		MaxDuration:     a.maxDuration(),
		MaxConcurrency:  config.Or(c.Limits.MaxConcurrency, 0),
		MaxElements:     config.Or(c.Limits.MaxElements, 0),
		MaxResultBytes:  int64(config.Or(c.Limits.MaxResultBytes, 0)),
		MaxChainBytes:   int64(config.Or(c.Limits.MaxChainBytes, 0)),
		MaxRunningBytes: 4 * int64(config.Or(c.Limits.MaxChainBytes, chain.DefaultMaxChainBytes)),
		MaxRequestBytes: a.MaxRequestBytes,
		Admission:       a.process.admission,
		Observer:        a.process.observer(),
		Planned:         a.planned(),
		ListHint:        hint,
		Lite:            config.Or(c.Lite, false),
	})
	if err != nil {
		return c.Refused([]*fault.Error{c.Under("", err)})
	}
	return nil
}

// serveDuration is how long a chain may run over MCP: clients put a call of two minutes aside, and may lose its answer.
const serveDuration = 110 * time.Second

// maxDuration is how long a chain may run; -1: any time, as on the command line.
func (a *App) maxDuration() time.Duration {
	switch ms := a.config.Budget.MaxDurationMs; {
	case ms != nil:
		return time.Duration(*ms) * time.Millisecond
	case a.process.serve:
		return serveDuration
	}
	return -1
}

// Run runs one request. Each run has its own place in the recordings.
func (a *App) Run(ctx context.Context, request []byte, caller *chain.Caller) *chain.Answer {
	if within := a.requestContext(); within != nil {
		ctx = within(ctx, request)
	}
	return a.Engine.Run(ctx, request, caller)
}

// requestContext makes the contexts of requests; nil: there is nothing to be added to them.
func (a *App) requestContext() func(ctx context.Context, request []byte) context.Context {
	if a.process.recording == nil && a.cassette == nil && (a.ladder == nil || a.process.session == nil) {
		return nil
	}
	return a.context
}

// context is that of a request, with its own place in the recordings, and with its client's session if calls are kept to
// a ladder.
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

// Scrubber takes the configuration's secrets out of what is shown.
func (a *App) Scrubber() *secret.Scrubber { return a.scrubber }

// chainName returns the name that a chain has, "" if it has none.
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

// close closes what belongs to the app, and ends its use of what belongs to the process.
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

// warn reports each warning once, and none that the app before has reported.
func (a *App) warn(f *fault.Error) {
	if a.process.firstWarning(a.generation, f.Error()) {
		a.process.Reporter.Warn(f)
	}
}
