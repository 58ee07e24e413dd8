package app

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// readiness is the cached result of the last readiness check.
type readiness struct {
	mu        sync.Mutex
	checkedAt time.Time
	err       error
}

// Readiness is checked at most once per recheckAfter, and a check takes at most checkTimeout.
const (
	recheckAfter = time.Second
	checkTimeout = 2 * time.Second
)

// ready reports why the server cannot serve calls, as a fault with code unavailable whose message is one line without secrets; nil: it is
// ready. Every source must have started or failed once. A server that is shutting down is not ready.
func (s *server) ready(ctx context.Context) error {
	if server := s.server.Load(); server != nil && server.Stats().Closing {
		return fault.New(fault.Unavailable, "not ready: the server is shutting down")
	}
	l := &s.readiness
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.checkedAt) >= recheckAfter {
		checkCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout) // the result is shared with other requests
		defer cancel()
		l.err = s.checkReady(checkCtx)
		l.checkedAt = time.Now()
	}
	return l.err
}

// probeStore makes one request to an app's result store, so that telemetry logs a broken store before a call needs it. Nothing waits for
// the probe, as the store may become available later.
func (s *server) probeStore(ctx context.Context, a *App) {
	ctx, cancel := context.WithTimeout(ctx, 5*checkTimeout) // longer than the store's own timeout, whose error says more
	defer cancel()
	if a.results != nil {
		_, _, _ = a.results.Value(ctx, "", noResult)
	}
}

func (s *server) checkReady(ctx context.Context) error {
	a := s.current.Load()
	if a == nil || s.server.Load() == nil {
		return fault.New(fault.Unavailable, "not ready: the server is starting")
	}
	var problems []string
	var starting []string
	for _, info := range a.Catalog.Sources() {
		if info.State == steps.StateStarting {
			starting = append(starting, info.Name)
		}
	}
	if len(starting) > 0 {
		slices.Sort(starting)
		problems = append(problems, fault.Clip("sources are starting: "+strings.Join(starting, ", "), 500))
	}
	if a.checkResults(ctx) != nil {
		problems = append(problems, "the result store cannot be reached")
	}
	if a.process.recording != nil && a.process.recording.recorder.Failing() != nil {
		problems = append(problems, "the recording cannot be written")
	}
	if a.checkJournal(ctx) != nil {
		problems = append(problems, "the journal cannot be written, and calls that write are refused")
	}
	if len(problems) > 0 {
		return fault.New(fault.Unavailable, "not ready: %s", strings.Join(problems, "; "))
	}
	return nil
}

// checkResults reports why the store of results cannot be used; nil: it can, or there is none.
func (a *App) checkResults(ctx context.Context) error {
	if a.results == nil {
		return nil
	}
	_, _, err := a.results.Value(ctx, "", noResult)
	if fault.CodeOf(err) == fault.TokenExpired { // the store works: it has answered that there is no such result
		return nil
	}
	return err
}

// checkJournal reports why the journal cannot be written; nil: it can, or it is off.
func (a *App) checkJournal(ctx context.Context) error {
	if a.Journal == nil {
		return nil
	}
	return a.Journal.Check(ctx)
}

// noResult is a token that no result has. A store that works reports it as expired.
const noResult = budget.TokenPrefix + "ready"
