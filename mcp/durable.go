package mcp

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// Durable hands runs to workers: other processes, which finish them whatever becomes of this one. Callers and keys name runs, as in the
// journal. It is safe for concurrent use.
type Durable interface {
	// NewKey returns a key for a run whose request has none.
	NewKey() string
	// Start has a worker carry out a run, with the rights of its caller. A run that waits for approval goes on.
	Start(ctx context.Context, run *chain.DurableRun, c *DurableCaller) *fault.Error
	// Wait returns the answer of a run once it has ended. idle is called as long as there is no worker. It fails with token_expired if
	// no worker was given the run, or that is not known any more.
	Wait(ctx context.Context, caller, key string, idle func()) (*chain.Answer, error)
	// Running reports whether workers have a run that has not ended.
	Running(ctx context.Context, caller, key string) (bool, error)
	// Cancel asks for a run to end. It does not wait.
	Cancel(ctx context.Context, caller, key string) error
}

// DurableCaller is who a worker carries out a run for.
type DurableCaller struct {
	steps.Caller
	Results budget.Rights // to stored results
}

const (
	endedSoon  = 5 * time.Second  // in which the answer of a run that has ended is there
	cancelTime = 10 * time.Second // in which the engine is told that a run is cancelled
)

// durable returns what hands chains of the call to workers; nil: nothing does.
func (c *call) durable() *chain.Durable {
	d := c.now.Durable
	if d == nil {
		return nil
	}
	return &chain.Durable{
		NewKey: d.NewKey,
		Start: func(ctx context.Context, run *chain.DurableRun) (<-chan *chain.Answer, *fault.Error) {
			s := c.toolset.server
			following, end, refused := s.following(ctx, c.transportRequest)
			if refused != nil {
				return nil, refused
			}
			who := &DurableCaller{Caller: *c.transportRequest.Caller, Results: c.caller.Rights}
			if f := d.Start(ctx, run, who); f != nil {
				end()
				return nil, f
			}
			return s.follow(following, end, &backgroundRun{BackgroundRun: run.BackgroundRun, key: run.Key, workers: d}, c.caller), nil
		},
	}
}

// following returns the context in which a request's durable run is followed: until the server ends, or the caller loses its rights.
func (s *Server) following(ctx context.Context, from *transport.Request) (_ context.Context, end func(), refused *fault.Error) {
	ctx, leave, refused := from.Follow(ctx)
	if refused != nil {
		return nil, nil, refused
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.background.Go(func() {
		select {
		case <-s.transport.Done():
			cancel(nil)
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil); leave() }, nil
}

// follow keeps the state of a run that workers carry out, until it has ended or ctx ends. The channel receives its answer, or is closed
// if that is not known. end is called at the end.
func (s *Server) follow(ctx context.Context, end func(), r *backgroundRun, c *chain.Caller) <-chan *chain.Answer {
	caller := &chain.Caller{ID: c.ID, Rights: c.Rights, MaxTotalTokens: c.MaxTotalTokens}
	r.caller, r.updated = caller.ID, r.Began
	r.cancel = func(error) { s.cancelAtWorkers(r) }
	s.runs.add(r)
	answered := make(chan *chain.Answer, 1)
	s.background.Go(func() {
		defer end()
		defer close(answered)
		answer, err := r.workers.Wait(ctx, caller.ID, r.key, func() { s.runs.setIdle(r) })
		now := s.now.Load()
		switch f, coded := fault.As(err); {
		case err == nil:
		case transport.Revoked(ctx) != nil:
			s.cancelAtWorkers(r)
			s.runs.end(r, nil, chain.StoredAnswer{})
			return
		case !coded || f.Code == fault.TokenExpired || ctx.Err() != nil: // it goes on, or another server may know of it
			s.runs.end(r, nil, chain.StoredAnswer{})
			return
		default:
			answer = now.Engine.Refuse(ctx, []*fault.Error{f}, caller)
		}
		s.runs.end(r, answer, now.Engine.KeepAnswer(ctx, answer, caller))
		answered <- answer
	})
	return answered
}

// cancelAtWorkers asks for a run to end. A failure is logged: the run then goes on.
func (s *Server) cancelAtWorkers(r *backgroundRun) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTime)
	defer cancel()
	if err := r.workers.Cancel(ctx, r.caller, r.key); err != nil {
		s.opts().Log.WarnContext(ctx, "a durable run could not be cancelled", "run", r.ID, "error", fault.Message(err))
	}
}

// find returns the present state of a caller's run in the background. One that workers have is followed from then on, if another server
// gave it to them. false: it is not in the background, or not known.
func (s *Server) find(ctx context.Context, now *generation, from *transport.Request, c *chain.Caller, id string) (backgroundRun, bool) {
	r, here := s.runs.of(id, c.ID)
	if here && r.ended.IsZero() && r.workers == nil {
		return r, true
	}
	past, err := now.Engine.PastRun(ctx, id, c)
	switch {
	case err != nil:
		return r, here
	case here && r.ended.IsZero():
		r.row = &past.Row
		return r, true
	case here && !past.Row.Last.After(r.ended):
		return r, true
	case now.Durable == nil || past.Row.Key == "":
		return r, false // if it was here, it was resumed since, and not in the background
	}
	return s.adopt(ctx, now, from, c, past)
}

// adopt follows a run that workers were given by another process.
func (s *Server) adopt(ctx context.Context, now *generation, from *transport.Request, c *chain.Caller, past *journal.Past) (
	backgroundRun, bool) {
	row := &past.Row
	running, err := now.Durable.Running(ctx, c.ID, row.CallersKey())
	if err != nil {
		return backgroundRun{}, false
	}
	following, end, refused := s.following(ctx, from)
	if refused != nil {
		return backgroundRun{}, false
	}
	began := chain.BackgroundRun{ID: row.ID, Steps: row.Steps, Began: row.Began}
	answered := s.follow(following, end, &backgroundRun{BackgroundRun: began, key: row.CallersKey(), workers: now.Durable}, c)
	if !running {
		select {
		case <-answered:
		case <-time.After(endedSoon):
		case <-ctx.Done():
		}
	}
	r, here := s.runs.of(row.ID, c.ID)
	r.row = row
	return r, here
}
