package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// ActFor prepares a worker to act for c, a caller of a server. It gives caller the id, rights and view of functions of c. The returned
// context belongs to c's trace and ends when c's token expires. Call end when the work has ended.
func (a *App) ActFor(ctx context.Context, caller *chain.Caller, c *durable.Caller) (_ context.Context, end func()) {
	caller.ID, caller.Rights, caller.MaxTotalTokens = c.ID, c.Results, c.MaxTotalTokens
	rights := c.Caller.Rights
	if rights.Credentials = ""; a.credentials != nil { // those of its logins: others were those of the request
		rights.Credentials = a.credentials.Bring(&c.Caller, nil)
	}
	caller.Functions = rights.View(a.Catalog)
	caller.Rights.Credentials = a.Catalog.Credentials(rights.Credentials)
	ctx = telemetry.WithCall(ctx, "", c.TraceParent, c.TraceState)
	if c.Expires.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, c.Expires, fault.New(fault.Denied, "the token of this run's caller has expired"))
}

// engines are the engines that a server has opened, by URL and scope.
type engines struct {
	open func(context.Context, *App) (durable.Engine, error)

	mu     sync.Mutex
	opened map[string]durable.Engine
}

// engine returns the engine of an app, opening it at first use. If that fails, the next use tries again.
func (e *engines) engine(ctx context.Context, a *App) (durable.Engine, error) {
	key := a.EngineURL() + " " + a.Scope()
	e.mu.Lock()
	engine := e.opened[key]
	e.mu.Unlock()
	if engine != nil {
		return engine, nil
	}
	engine, err := e.open(ctx, a)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if other := e.opened[key]; other != nil { // another call has opened it meanwhile
		engine.Close()
		return other, nil
	}
	if e.opened == nil {
		e.opened = map[string]durable.Engine{}
	}
	e.opened[key] = engine
	return engine, nil
}

func (e *engines) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, engine := range e.opened {
		engine.Close()
	}
}

// workers implements chain.Workers for an app.
type workers struct {
	*engines
	app *App
	log *slog.Logger
}

var _ chain.Workers = (*workers)(nil)

// hasWorkers reports whether runs of callers are handed to workers.
func (a *App) hasWorkers() bool {
	p := a.process
	return p.serve && p.workers && (p.engineFlag || a.EngineURL() != "")
}

// workers returns the workers of an app; nil: there are none, or they cannot share its runs and results. It warns in the latter case.
func (s *server) workers(a *App) chain.Workers {
	if !a.hasWorkers() {
		return nil
	}
	if err := a.CheckShared(); err != nil {
		f, _ := fault.As(err)
		a.warn(f)
		return nil
	}
	return &workers{&s.engines, a, s.log}
}

// handoverTimeout bounds how long it takes to hand over a run.
const handoverTimeout = 10 * time.Second

// Start implements chain.Workers.
func (w *workers) Start(ctx context.Context, run *chain.HandedRun) *fault.Error {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	caller := &durable.Caller{Caller: *run.Caller, Results: run.Results, MaxTotalTokens: run.MaxTotalTokens}
	caller.TraceParent, caller.TraceState = steps.Trace(ctx)
	err := w.start(ctx, run, &durable.Chain{Run: run.Run, Lease: run.Lease, Caller: caller})
	if err == nil {
		return nil
	}
	w.log.ErrorContext(ctx, "a run could not be handed to workers", "run", run.Run, "error", fault.Message(err))
	f := fault.New(fault.Unavailable, "the run could not be handed to workers, and nothing of it was done: try again later, or add "+
		"\"durable\": false to have this server carry it out")
	f.Err = err
	return f
}

// start starts a batch of one chain. The batch has no record of its own: the run in the journal has its outcome.
func (w *workers) start(ctx context.Context, run *chain.HandedRun, c *durable.Chain) error {
	b := &durable.Batch{ID: run.ID, Name: run.Name, Chunks: []int{1}}
	engine, err := w.engine(ctx, w.app)
	if err != nil {
		return err
	}
	text, err := json.Marshal([]*durable.Chain{c})
	if err != nil {
		return err
	}
	if err := w.app.BatchStore().Put(ctx, b.InputKey(0), text); err != nil {
		return err
	}
	return engine.Start(ctx, b)
}

// Answer implements chain.Workers.
func (w *workers) Answer(ctx context.Context, id string) (*chain.HandedAnswer, error) {
	engine, err := w.engine(ctx, w.app)
	if err != nil {
		return nil, err
	}
	p, err := engine.Wait(ctx, id, nil)
	switch {
	case errors.Is(err, durable.ErrEnded):
		return nil, fault.New(fault.TokenExpired, "the workflow was ended from outside before its chain ended")
	case err != nil:
		return nil, err
	case len(p.Parked) > 0:
		return &chain.HandedAnswer{Fault: durable.ParkedFault(p.Parked[0].Refused, "resume tries it again")}, nil
	case p.Ended == 0:
		return &chain.HandedAnswer{Fault: fault.New(fault.Cancelled, "it was cancelled before a worker carried it out")}, nil
	}
	last := durable.FirstAssignment(0)
	if n := len(p.Assignments); n > 0 {
		last = p.Assignments[n-1]
	}
	text, err := w.app.BatchStore().Get(ctx, (&durable.Batch{ID: id}).ResultKey(last))
	if err != nil {
		return nil, err
	}
	var results []*durable.Result
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, err
	}
	return &chain.HandedAnswer{Answer: results[0].ChainAnswer(), Lease: results[0].Lease, Rights: results[0].Rights}, nil
}

// State implements chain.Workers.
func (w *workers) State(ctx context.Context, id string) (running, idle bool, err error) {
	engine, err := w.engine(ctx, w.app)
	if err != nil {
		return false, false, err
	}
	if running, err = engine.Running(ctx, id); running {
		idle = engine.NoWorkers(ctx)
	}
	return running, idle, err
}

// Cancel implements chain.Workers.
func (w *workers) Cancel(ctx context.Context, id string) error {
	engine, err := w.engine(ctx, w.app)
	if err != nil {
		return err
	}
	return engine.Cancel(ctx, id)
}
