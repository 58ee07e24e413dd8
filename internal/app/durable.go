package app

import (
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// ActFor has a worker act for a caller of a server (nil: the operator): with that caller's view of this app's functions, as part of its
// trace, until its token expires.
func (a *App) ActFor(ctx context.Context, as *chain.Caller, c *durable.Caller) (_ context.Context, end func()) {
	if c == nil {
		return ctx, func() {}
	}
	as.ID, as.Rights, as.MaxTotalTokens = c.ID, c.Results, c.MaxTotalTokens
	as.Functions = steps.NewView(a.Catalog, c.Caller.Rights.Allows)
	ctx = telemetry.WithCall(ctx, "", c.TraceParent, c.TraceState)
	if c.Expires.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, c.Expires, fault.New(fault.Denied, "the token of this run's caller has expired"))
}

// engines are the engines that a server has opened, by their queues' scopes. An engine that could not be opened is tried again.
type engines struct {
	open func(context.Context, *App) (durable.Engine, error)

	mu     sync.Mutex
	opened map[string]durable.Engine
}

func (e *engines) of(ctx context.Context, a *App) (durable.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := a.EngineURL() + " " + a.Scope()
	if engine := e.opened[key]; engine != nil {
		return engine, nil
	}
	engine, err := e.open(ctx, a)
	if err == nil {
		if e.opened == nil {
			e.opened = map[string]durable.Engine{}
		}
		e.opened[key] = engine
	}
	return engine, err
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
}

var _ mcp.Durable = (*durableRuns)(nil)

// hasWorkers reports whether runs of callers are handed to workers.
func (a *App) hasWorkers() bool {
	p := a.process
	return p.serve && p.workers && (p.engineFlag || a.EngineURL() != "")
}

// durable returns what hands runs of callers to workers; nil: nothing does.
func (s *server) durable(a *App) mcp.Durable {
	if !a.hasWorkers() {
		return nil
	}
	return &durableRuns{&s.engines, a}
}

func (d *durableRuns) single(ctx context.Context) (*durable.Single, error) {
	engine, err := d.of(ctx, d.app)
	if err != nil {
		return nil, err
	}
	return &durable.Single{Engine: engine, Store: d.app.BatchStore()}, nil
}

// idOf returns the id of the batch of a caller's run with a key.
func (d *durableRuns) idOf(caller, key string) string {
	id, _ := durable.BatchOf(d.app.Scope(), caller, key)
	return id
}

// NewKey implements mcp.Durable.
func (d *durableRuns) NewKey() string { return (&durable.Batch{ID: durable.NewID()}).RunKey(0) }

// Start implements mcp.Durable.
func (d *durableRuns) Start(ctx context.Context, run *chain.DurableRun, c *mcp.DurableCaller) *fault.Error {
	single, err := d.single(ctx)
	if err == nil {
		as := &durable.Caller{Caller: c.Caller, Results: c.Results, MaxTotalTokens: run.MaxTotalTokens}
		as.TraceParent, as.TraceState = steps.Trace(ctx)
		one := &durable.Chain{Request: run.Chain, Name: run.Name, Run: run.ID, Caller: as}
		err = single.Start(ctx, d.idOf(c.ID, run.Key), run.Name, one)
	}
	if err == nil {
		return nil
	}
	f, coded := fault.As(err)
	if !coded {
		f = fault.New(fault.Unavailable, "the run cannot be handed to workers now: %v", err)
		f.Err = err
	}
	return f
}

// Wait implements mcp.Durable.
func (d *durableRuns) Wait(ctx context.Context, caller, key string, idle func()) (*chain.Answer, error) {
	single, err := d.single(ctx)
	if err != nil {
		return nil, err
	}
	result, err := single.Wait(ctx, d.idOf(caller, key), idle)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, fault.New(fault.Cancelled, "it was cancelled before a worker began it")
	case result.Answer == nil:
		return nil, result.Error
	}
	return result.ChainAnswer(), nil
}

// Running implements mcp.Durable.
func (d *durableRuns) Running(ctx context.Context, caller, key string) (bool, error) {
	engine, err := d.of(ctx, d.app)
	if err != nil {
		return false, err
	}
	return engine.Running(ctx, d.idOf(caller, key))
}

// Cancel implements mcp.Durable.
func (d *durableRuns) Cancel(ctx context.Context, caller, key string) error {
	engine, err := d.of(ctx, d.app)
	if err != nil {
		return err
	}
	return engine.Cancel(ctx, d.idOf(caller, key))
}
