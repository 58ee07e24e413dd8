package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/ladder"
	"github.com/onecall-mcp/onecall/steps/shape"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// app is what one configuration says, put together from its packages.
type app struct {
	process    *process
	use        use
	generation int // of the configurations that were served, this one included
	config     *config.File
	files      fileState // that the configuration was read from, if it is served

	catalog           *steps.Catalog
	settings          *steps.Settings
	scrubber          *secret.Scrubber
	sources           map[string]*sharedSource     // those that stay open through a reload, by name
	servers           map[string]*mcpsource.Source // those of mcpServers that were opened
	services          []*openapi.Source            // whose documents stand at a URL
	unusableDocuments map[string]bool              // of openapi, by name
	cache             *cache.Cache
	counter           budget.Counter
	dispatch          *groups.Dispatch
	ladder            *ladder.Ladder    // nil: calls come in any order
	shapes            *shape.Store      // nil: turned off
	identities        map[string]string // by source: what the shapes of its results belong to
	callers           *callers          // over HTTP, by their tokens; nil: nobody has one
	cassette          *replay.Cassette  // nil: functions are called
	store             budget.Driver
	storeBytes        int64 // the bound of store, when the app is served
	results           *budget.Results
	engine            *chain.Engine
	maxRequestBytes   int64
	maxTotalTokens    int // of an answer; 0: none

	closers []io.Closer
}

// use is what a command does with the functions.
type use struct {
	record, replay string // files; at most one of the two
	none           bool   // it calls none, and no source needs to start
	detail         bool   // it shows them, and what their sources lack
	serve          bool   // it serves them to clients
	anySurface     bool   // each client may choose its surface
	surface        string // in the place of the configuration's; "": that one

	// Of who serves.
	remote    bool // other machines reach it
	logs      *logs
	telemetry *telemetry.Telemetry
}

// open puts onecall together for a command, which closes the app by closeInto.
func (c *cli) open(u use) (*app, error) {
	p := newProcess(c, u)
	a, err := p.open(nil)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return a, nil
}

// open puts together what the configuration says now. before is the app that it replaces, which goes on meanwhile; nil: there
// is none. The caller closes the app. With an error the app is closed already, and tells only what was read.
func (p *process) open(before *app) (*app, error) {
	a := &app{process: p, use: p.use, unusableDocuments: map[string]bool{}}
	if before != nil {
		a.generation = before.generation + 1
	}
	cfg, faults := a.load()
	if cfg.Unread { // what else could be said would be of a configuration that nobody has written
		return a, errors.Join(cfg.Refused(cfg.Settled(faults, len(faults))), a.close())
	}
	p.redactor.learn(cfg.Secrets)
	for _, w := range cfg.Warnings {
		a.warn(w)
	}
	if a.use.surface != "" {
		cfg.Surface = &a.use.surface
	}
	if err := a.assemble(before, faults); err != nil {
		return a, errors.Join(err, a.close())
	}
	return a, nil
}

// load reads the configuration. If it is served its files are looked at before they are read: so no change is missed.
func (a *app) load() (*config.File, []*fault.Error) {
	if path, f := config.Find(a.process.configPath); f == nil && a.use.serve {
		a.files = fileState{}
		a.files.add("", path)
	}
	cfg, faults := config.Load(a.process.configPath)
	a.config = cfg
	if a.files != nil {
		for at, paths := range documentsOf(cfg) {
			a.files.add(at, paths...)
		}
	}
	return cfg, faults
}

// assemble opens the parts of the app, those last that start programs: only if nothing is wrong with the others.
func (a *app) assemble(before *app, faults []*fault.Error) error {
	cfg, read := a.config, len(faults)
	if err := a.openRecordings(); err != nil {
		return err
	}
	o, err := a.openSources(cfg, faults, before)
	if err != nil {
		return err
	}
	if a.counter, err = budget.NewCounter(config.Or(cfg.Tokens.Encoding, ""), config.Or(cfg.Tokens.Factor, 0)); err != nil {
		o.faults = append(o.faults, cfg.Under("/tokens", err))
	}
	o.faults = append(o.faults, a.face(cfg, before)...)
	if len(o.faults) > 0 {
		return cfg.Refused(cfg.Settled(o.faults, read))
	}
	if err = a.start(cfg, a.use.serve); err != nil {
		return err
	}
	if o.startServers(); len(o.faults) > 0 {
		return cfg.Refused(cfg.Settled(o.faults, read))
	}
	return nil
}

// openRecordings opens the recording that calls are written to, once in a process, or the one that they are answered from.
func (a *app) openRecordings() (err error) {
	u := a.use
	switch {
	case u.record != "" && u.replay != "":
		return usage("--record and --replay exclude each other: a replay makes no calls to record")
	case u.record != "" && a.process.recording == nil:
		a.process.recording, err = newRecording(u)
	case u.replay != "":
		if a.cassette, err = replay.Open(u.replay); err == nil {
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
func (a *app) start(c *config.File, serve bool) error {
	tokens, store, hint := 0, "disk", "onecall tools lists the functions"
	if serve {
		tokens, store, hint = servedTokens, "memory", "the tool search finds functions"
	}
	a.maxTotalTokens = config.Or(c.Budget.MaxTotalTokens, tokens)
	if err := a.openResults(&c.Results, store); err != nil {
		return c.Refused([]*fault.Error{c.Under("/results", err)})
	}
	a.maxRequestBytes = int64(config.Or(c.Limits.MaxRequestBytes, chain.DefaultMaxRequestBytes))
	var err error
	a.engine, err = chain.New(&chain.Options{
		Functions:       a.catalog,
		Counter:         a.counter,
		Results:         a.results,
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
		MaxRequestBytes: a.maxRequestBytes,
		Admission:       a.process.admission,
		Observer:        a.use.observer(),
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
func (a *app) maxDuration() time.Duration {
	switch ms := a.config.Budget.MaxDurationMs; {
	case ms != nil:
		return time.Duration(*ms) * time.Millisecond
	case a.use.serve:
		return serveDuration
	}
	return -1
}

// run runs one request. Each run has its own place in the recordings.
func (a *app) run(ctx context.Context, request []byte, caller *chain.Caller) *chain.Answer {
	return a.engine.Run(a.context(ctx, request), request, caller)
}

// context is that of a request, with its own place in the recordings, and with its client's session where calls are kept to
// a ladder.
func (a *app) context(ctx context.Context, request []byte) context.Context {
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

// close closes what belongs to the app, and ends its use of what belongs to the process.
func (a *app) close() error {
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer.Close())
	}
	a.closers = nil
	if err := errors.Join(errs...); err != nil {
		return failure{err}
	}
	return nil
}

// closeInto closes the app of a command and its process, and adds what went wrong to the command's error. Rungs that name no
// function are reported last, when most is known: a list of the functions reports them by itself.
func (a *app) closeInto(err *error) {
	if !a.use.detail {
		for _, f := range a.brokenRungs() {
			a.warn(f)
		}
	}
	*err = errors.Join(*err, a.close(), a.process.close())
}

// warn tells of what is odd but stops nothing.
func (s *streams) warn(f *fault.Error) {
	text := f.Error()
	if f.Code == fault.BadRequest { // which is the code of a note too
		text = strings.TrimPrefix(text, string(f.Code)+" ")
		text = strings.TrimPrefix(text, string(f.Code)+": ")
	}
	if len(f.Nearest) > 0 && !mentions(f.Message, f.Nearest[0]) {
		text += ": did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	s.note("warning: %s", textfile.Printable(text))
}

// note writes a line for a person, or several.
func (s *streams) note(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i := range lines {
		lines[i] = textfile.Printable(lines[i])
	}
	fmt.Fprintln(s.err, strings.Join(lines, "\n"))
}

// warn gives each warning once, and none that the app before has given.
func (a *app) warn(f *fault.Error) {
	if a.process.firstWarning(a.generation, f.Error()) {
		a.process.warn(f)
	}
}
