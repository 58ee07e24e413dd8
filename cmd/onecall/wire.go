package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/callcache"
	"github.com/onecall-mcp/onecall/steps/dispatch"
	"github.com/onecall-mcp/onecall/steps/ladder"
	"github.com/onecall-mcp/onecall/steps/replay"
)

// app is onecall put together from its packages, as the configuration says.
type app struct {
	catalog         *steps.Catalog
	config          *configFile
	settings        *steps.Settings
	scrubber        *steps.Scrubber
	servers         map[string]steps.Source // those of mcpServers that were opened
	cache           *callcache.Cache
	counter         budget.Counter
	dispatch        *dispatch.Dispatch
	ladder          *ladder.Ladder // nil: calls come in any order
	session         *steps.Session // of the one client that there is; nil: there may be several, who have their own
	engine          *chain.Engine
	maxRequestBytes int64
	maxTotalTokens  int // of an answer; 0: none

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
}

// open puts onecall together. The caller closes the app.
func (c *cli) open(u use) (*app, error) {
	config, faults := loadConfig(c.configPath)
	for _, w := range config.warnings {
		c.warn(w)
	}
	if u.surface != "" {
		config.Surface = &u.surface
	}
	config.anySurface = u.anySurface
	read := len(faults)
	a := &app{config: config}
	if !u.serve || !u.anySurface {
		a.session = &steps.Session{}
	}
	err := a.play(u)
	if err != nil {
		return nil, err
	}
	faults, err = a.sources(c, config, faults, u)
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	if a.counter, err = budget.NewCounter(valueOr(config.Tokens.Encoding, ""), valueOr(config.Tokens.Factor, 0)); err != nil {
		faults = append(faults, config.under("/tokens", err))
	}
	faults = append(faults, a.face(config)...)
	if len(faults) > 0 {
		return nil, errors.Join(config.refused(config.settled(faults, read)), a.close())
	}
	if err = a.start(config, u.serve); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
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
		a.recording, err = newRecording(u.record)
	case u.replay != "":
		a.cassette, err = replay.Open(u.replay)
	}
	return err
}

// servedTokens is the token budget of an answer to an MCP client where the configuration says none.
const servedTokens = 10_000

// start makes the engine. What it serves has a token budget, and keeps results in memory, where nothing else is said.
func (a *app) start(c *configFile, serve bool) error {
	tokens, store := 0, "disk"
	if serve {
		tokens, store = servedTokens, "memory"
	}
	a.maxTotalTokens = valueOr(c.Budget.MaxTotalTokens, tokens)
	results, err := newResults(&c.Results, store, a.counter)
	if err != nil {
		return c.refused([]*fault.Error{c.under("/results", err)})
	}
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
		MaxDuration:     time.Duration(valueOr(c.Budget.MaxDurationMs, 0)) * time.Millisecond,
		MaxConcurrency:  valueOr(c.Limits.MaxConcurrency, 0),
		MaxElements:     valueOr(c.Limits.MaxElements, 0),
		MaxResultBytes:  int64(valueOr(c.Limits.MaxResultBytes, 0)),
		MaxChainBytes:   int64(valueOr(c.Limits.MaxChainBytes, 0)),
		MaxRequestBytes: a.maxRequestBytes,
		Lite:            valueOr(c.Lite, false),
	})
	if err != nil {
		return c.refused([]*fault.Error{c.under("", err)})
	}
	return nil
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
	if a.recording != nil {
		errs = append(errs, a.recording.Close())
		a.recording = nil
	}
	if err := errors.Join(errs...); err != nil {
		return failure{err}
	}
	return nil
}

// closeInto closes the app of a command and adds what went wrong to the command's error.
func (a *app) closeInto(err *error) { *err = errors.Join(*err, a.close()) }

// warn tells of what is odd but stops nothing.
func (s *streams) warn(f *fault.Error) {
	text := f.Error()
	if f.Code == fault.BadRequest { // which is the code of a note too
		text = strings.TrimPrefix(text, string(f.Code)+" ")
		text = strings.TrimPrefix(text, string(f.Code)+": ")
	}
	if len(f.Nearest) > 0 && !strings.Contains(f.Message, f.Nearest[0]) {
		text += ": did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	s.note("warning: %s", printable(text))
}

// note writes a line for a person.
func (s *streams) note(format string, args ...any) { fmt.Fprintf(s.err, format+"\n", args...) }

// recording is the file that calls are recorded to.
type recording struct {
	path     string
	file     *os.File
	recorder *replay.Recorder
}

// newRecording opens a file to append to.
func newRecording(path string) (*recording, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, unable("--record: %s cannot be written: %v", path, reason(err))
	}
	if err := endLine(file); err != nil {
		file.Close()
		return nil, unable("--record: %s cannot be written: %v", path, reason(err))
	}
	return &recording{path: path, file: file, recorder: replay.NewRecorder(file)}, nil
}

// endLine ends the last line of a file that was cut off, so that the next one stands for itself.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}

// Close ends the recording and tells whether it is whole.
func (r *recording) Close() error {
	err := r.recorder.Err()
	if closing := r.file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("%s does not hold all calls: %w", r.path, err)
	}
	return nil
}
