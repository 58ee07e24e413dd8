package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
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
)

// app is onecall put together from its packages, as the configuration says.
type app struct {
	*lasting
	use             use
	catalog         *steps.Catalog
	config          *configFile
	settings        *steps.Settings
	scrubber        *secret.Scrubber
	servers         map[string]*mcpsource.Source // those of mcpServers that were opened
	services        []*openapi.Source            // whose documents stand at a URL
	cache           *cache.Cache
	counter         budget.Counter
	dispatch        *groups.Dispatch
	ladder          *ladder.Ladder    // nil: calls come in any order
	shapes          *shape.Store      // nil: turned off
	identities      map[string]string // by source: what the shapes of its results belong to
	callers         *callers          // over HTTP, by their tokens; nil: nobody has one
	results         *budget.Results
	engine          *chain.Engine
	maxRequestBytes int64
	maxTotalTokens  int // of an answer; 0: none

	documents map[string]string // what was wrong with the OpenAPI documents that could not be used, by what they were opened with
	held      map[string]string // by the names of sources that can stay open, what they were opened with
	opened    []string          // of those, the ones that were not open
	told      *telling
	named     map[string][]string // what the configuration names, where it is served
	seen      sight               // what the configuration and those files held when it was loaded, where it is served

	recording *recording       // nil: calls are not recorded
	cassette  *replay.Cassette // nil: functions are called
	closers   []io.Closer
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

// open puts onecall together. The caller closes the app.
func (c *cli) open(u use) (*app, error) { return c.openAfter(nil, u) }

// openAfter puts onecall together to take the place of another app, which goes on: what was opened with the same settings is
// used by both. nil: there is none.
func (c *cli) openAfter(before *app, u use) (*app, error) {
	a := &app{use: u, told: newTelling(c, before), documents: map[string]string{}, held: map[string]string{}}
	if before != nil {
		a.lasting = before.lasting
	} else {
		a.lasting = &lasting{admission: admit.Default(), redactor: &c.redactor}
		if !u.serve || !u.anySurface {
			a.session = &steps.Session{}
		}
	}
	config, faults := a.load(c)
	if config.unread { // what else could be said would be of a configuration that nobody has written
		return nil, errors.Join(config.refused(config.settled(faults, len(faults))), a.close())
	}
	a.redactor.learn(a, config.secrets)
	for _, w := range config.warnings {
		a.told.warn(w)
	}
	if u.surface != "" {
		config.Surface = &u.surface
	}
	config.anySurface = u.anySurface
	if err := a.assemble(c, before, faults); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// load reads the configuration. Where it is served, what its files hold is looked at first: so no change is missed.
func (a *app) load(c *cli) (*configFile, []*fault.Error) {
	var seen digests
	a.seen = sight{}
	if path, f := findConfig(c.configPath); f == nil && a.use.serve {
		a.seen = seen.see(path, nil)
	}
	config, faults := loadConfig(c.configPath)
	a.config = config
	if a.use.serve {
		a.named = config.named()
		maps.Copy(a.seen, seen.see("", a.named))
	}
	return config, faults
}

// assemble opens the parts of the app, those last that start programs: only where nothing is wrong with the others.
func (a *app) assemble(c *cli, before *app, faults []*fault.Error) error {
	config, u, read := a.config, a.use, len(faults)
	err := a.play(u)
	if err != nil {
		return err
	}
	o, err := a.sources(c, config, faults, before)
	if err != nil {
		return err
	}
	if a.counter, err = budget.NewCounter(valueOr(config.Tokens.Encoding, ""), valueOr(config.Tokens.Factor, 0)); err != nil {
		o.faults = append(o.faults, config.under("/tokens", err))
	}
	o.faults = append(o.faults, a.face(config, before)...)
	if len(o.faults) > 0 {
		o.giveBack()
		return config.refused(config.settled(o.faults, read))
	}
	if err = a.start(config, u.serve); err != nil {
		o.giveBack()
		return err
	}
	if o.start(); len(o.faults) > 0 {
		return config.refused(config.settled(o.faults, read))
	}
	return nil
}

// refused is the error of a configuration with faults, those of one that was not read from a file included.
func (c *configFile) refused(faults []*fault.Error) error {
	name := c.path
	if name == "" {
		name = "the default configuration"
	}
	return &configError{file: name, text: c.text, faults: faults}
}

// play opens the recording that calls are written to, or answered from.
func (a *app) play(u use) error {
	var err error
	switch {
	case u.record != "" && u.replay != "":
		return usage("--record and --replay exclude each other: a replay makes no calls to record")
	case u.record != "":
		var lent *loan[*recording]
		if lent, err = take(&a.shelf, shelfKey("recording", u.record), func() (*recording, error) { return newRecording(u) }); err == nil {
			a.recording = lent.value
			a.closers = append(a.closers, lent) // closed last
		}
	case u.replay != "":
		if a.cassette, err = replay.Open(u.replay); err == nil {
			for _, w := range a.cassette.Warnings() {
				a.told.warn(w)
			}
		}
	}
	return err
}

// servedTokens is the token budget of an answer to an MCP client where the configuration says none.
const servedTokens = 10_000

// start makes the engine. What it serves has a token budget, and keeps results in memory, where nothing else is said.
func (a *app) start(c *configFile, serve bool) error {
	tokens, store, hint := 0, "disk", "onecall tools lists the functions"
	if serve {
		tokens, store, hint = servedTokens, "memory", "the tool search finds functions"
	}
	a.maxTotalTokens = valueOr(c.Budget.MaxTotalTokens, tokens)
	results, err := newResults(&a.shelf, &c.Results, store, a.counter, a.use.watched)
	if err != nil {
		return c.refused([]*fault.Error{c.under("/results", err)})
	}
	a.results = results
	a.closers = append(a.closers, results)
	a.maxRequestBytes = int64(valueOr(c.Limits.MaxRequestBytes, chain.DefaultMaxRequestBytes))
	a.engine, err = chain.New(&chain.Options{
		Functions:       a.catalog,
		Counter:         a.counter,
		Results:         results,
		MaxTotalTokens:  a.maxTotalTokens,
		ProbeAbove:      valueOr(c.Results.ProbeAbove, 0),
		LeanAbove:       c.leanAbove(),
		Hoist:           c.Hoist,
		Rung:            a.rung(),
		MaxSteps:        min(valueOr(c.Budget.MaxSteps, chain.DefaultMaxSteps), valueOr(c.Limits.MaxSteps, chain.DefaultMaxSteps)),
		MaxCalls:        valueOr(c.Budget.MaxCalls, 0),
		MaxDuration:     a.maxDuration(),
		MaxConcurrency:  valueOr(c.Limits.MaxConcurrency, 0),
		MaxElements:     valueOr(c.Limits.MaxElements, 0),
		MaxResultBytes:  int64(valueOr(c.Limits.MaxResultBytes, 0)),
		MaxChainBytes:   int64(valueOr(c.Limits.MaxChainBytes, 0)),
		MaxRunningBytes: int64(valueOr(c.Limits.MaxRunningBytes, 0)),
		MaxRequestBytes: a.maxRequestBytes,
		Admission:       a.admission,
		Observer:        a.use.observer(),
		Planned:         a.planned(),
		ListHint:        hint,
		Lite:            valueOr(c.Lite, false),
	})
	if err != nil {
		return c.refused([]*fault.Error{c.under("", err)})
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
	if a.ladder != nil && a.session != nil && steps.SessionOf(ctx) == nil {
		ctx = steps.WithSession(ctx, a.session)
	}
	if a.recording == nil && a.cassette == nil {
		return ctx
	}
	name := chainName(request)
	ctx = replay.WithChain(ctx, name)
	if a.cassette != nil {
		ctx = a.cassette.Cursor(ctx, name)
	}
	return ctx
}

// close closes everything, the recording last.
func (a *app) close() error {
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer.Close())
	}
	a.closers = nil
	a.redactor.forget(a)
	if err := errors.Join(errs...); err != nil {
		return failure{err}
	}
	return nil
}

// closeInto closes the app of a command and adds what went wrong to the command's error. Rungs that name no function are
// reported last, as it is then that most is known: a server and a list of the functions report them by themselves.
func (a *app) closeInto(err *error) {
	if !a.use.serve && !a.use.detail {
		for _, f := range a.brokenRungs() {
			a.told.warn(f)
		}
	}
	*err = errors.Join(*err, a.close())
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
	s.note("warning: %s", printable(text))
}

// note writes a line for a person, or several.
func (s *streams) note(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	fmt.Fprintln(s.err, strings.Join(lines, "\n"))
}

// telling gives each warning once, those that the app before has given not again.
type telling struct {
	cli *cli

	mu           sync.Mutex
	told, before map[string]bool
}

func newTelling(c *cli, before *app) *telling {
	t := &telling{cli: c, told: map[string]bool{}}
	if before != nil {
		before.told.mu.Lock()
		defer before.told.mu.Unlock()
		t.before = maps.Clone(before.told.told)
	}
	return t
}

func (t *telling) warn(f *fault.Error) {
	if t.first(f.Error()) {
		t.cli.warn(f)
	}
}

// first tells whether something is to be told now, as it was not before.
func (t *telling) first(what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := t.told[what] || t.before[what]
	t.told[what] = true
	return !again
}
