package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// ActFor prepares a worker to act for c, a caller of a server. It gives caller the id, rights and view of functions of c. The returned
// context belongs to c's trace and ends when c's token expires. Call end when the work has ended.
func (a *App) ActFor(ctx context.Context, caller *chain.Caller, c *durable.Caller) (_ context.Context, end func()) {
	caller.ID, caller.Rights, caller.MaxTotalTokens = c.ID, c.Results, c.MaxTotalTokens
	caller.Functions = steps.NewView(a.Catalog, c.Caller.Rights.Allows)
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

// durableRuns implements mcp.Durable for an app.
type durableRuns struct {
	*engines
	app *App
	log *slog.Logger
}

var _ mcp.Durable = (*durableRuns)(nil)

// hasWorkers reports whether runs of callers are handed to workers.
func (a *App) hasWorkers() bool {
	p := a.process
	return p.serve && p.workers && (p.engineFlag || a.EngineURL() != "")
}

// durable returns what hands callers' runs to workers; nil: there are no workers, or they cannot share this app's runs and results. It
// warns in the latter case.
func (s *server) durable(a *App) mcp.Durable {
	if !a.hasWorkers() {
		return nil
	}
	if err := a.CheckShared(); err != nil {
		f, _ := fault.As(err)
		a.warn(f)
		return nil
	}
	return &durableRuns{&s.engines, a, s.log}
}

// batchOf returns the id of the batch in which workers carry out a run.
func batchOf(run chain.HandedRun) string { return fmt.Sprintf("%s.%d", run.Run, run.Lease) }

// NewKey implements mcp.Durable.
func (d *durableRuns) NewKey() string { return durable.NewID() }

// handoverTimeout bounds how long it takes to hand over a run.
const handoverTimeout = 10 * time.Second

// Start implements mcp.Durable.
func (d *durableRuns) Start(ctx context.Context, run *chain.DurableRun, c *mcp.DurableCaller) *fault.Error {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	caller := &durable.Caller{Caller: c.Caller, Results: c.Results, MaxTotalTokens: run.MaxTotalTokens}
	caller.TraceParent, caller.TraceState = steps.Trace(ctx)
	engine, err := d.engine(ctx, d.app)
	if err == nil {
		single := &durable.Single{Engine: engine, Store: d.app.BatchStore()}
		err = single.Start(ctx, batchOf(run.HandedRun), run.Name, &durable.Chain{Run: run.Run, Lease: run.Lease, Caller: caller})
	}
	if err == nil {
		return nil
	}
	d.log.ErrorContext(ctx, "a run could not be handed to workers", "run", run.Run, "error", fault.Message(err))
	f := fault.New(fault.Unavailable, "the run could not be handed to workers, and nothing of it was done: try again later, or add "+
		"\"durable\": false to have this server carry it out")
	f.Err = err
	return f
}

// Answer implements mcp.Durable.
func (d *durableRuns) Answer(ctx context.Context, run chain.HandedRun) (*mcp.DurableAnswer, error) {
	engine, err := d.engine(ctx, d.app)
	if err != nil {
		return nil, err
	}
	result, err := (&durable.Single{Engine: engine, Store: d.app.BatchStore()}).Wait(ctx, batchOf(run))
	switch {
	case errors.Is(err, durable.ErrEnded):
		return nil, fault.New(fault.TokenExpired, "the workflow was ended from outside before its chain ended")
	case err != nil:
		return nil, err
	case result == nil:
		return &mcp.DurableAnswer{Fault: fault.New(fault.Cancelled, "it was cancelled before a worker carried it out")}, nil
	case result.Answer == nil:
		return &mcp.DurableAnswer{Fault: result.Error}, nil
	}
	return &mcp.DurableAnswer{Answer: result.ChainAnswer(), Lease: result.Lease, Rights: result.Rights}, nil
}

// State implements mcp.Durable.
func (d *durableRuns) State(ctx context.Context, run chain.HandedRun) (running, idle bool, err error) {
	engine, err := d.engine(ctx, d.app)
	if err != nil {
		return false, false, err
	}
	if running, err = engine.Running(ctx, batchOf(run)); running {
		idle = engine.NoWorkers(ctx)
	}
	return running, idle, err
}

// Cancel implements mcp.Durable.
func (d *durableRuns) Cancel(ctx context.Context, run chain.HandedRun) error {
	engine, err := d.engine(ctx, d.app)
	if err != nil {
		return err
	}
	return engine.Cancel(ctx, batchOf(run))
}
