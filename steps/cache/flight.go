package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// flight is a read that runs, and those who wait for it.
type flight struct {
	read    *read
	waiters int  // guarded by Cache.mu
	landed  bool // likewise: outcome is there
	// deadline is the latest that a waiter ever had; nil: one had none. It is what the function is told, so that it does
	// not give up for one who is impatient; those who wait keep their own. Written under Cache.mu.
	deadline atomic.Pointer[time.Time]
	cancel   context.CancelCauseFunc
	escort   *escort

	done    chan struct{} // closed soon after it has landed
	outcome outcome
}

// outcome is what a read came to. personal: a value was put into the store of the first caller, and the answer is nobody
// else's.
type outcome struct {
	answer   []byte
	err      error
	personal bool
}

func newFlight(r *read) *flight { return &flight{read: r, done: make(chan struct{})} }

// join counts one more who waits. Cache.mu is held.
func (f *flight) join(ctx context.Context) {
	deadline, limited := ctx.Deadline()
	latest := f.deadline.Load()
	switch {
	case !limited:
		f.deadline.Store(nil)
	case f.waiters == 0 || latest != nil && latest.Before(deadline):
		f.deadline.Store(&deadline)
	}
	f.waiters++
}

// flightContext has the values of the first caller's context. It ends when nobody waits any more.
type flightContext struct {
	context.Context
	flight *flight
}

func (c *flightContext) Deadline() (time.Time, bool) {
	if d := c.flight.deadline.Load(); d != nil {
		return *d, true
	}
	return time.Time{}, false
}

// lead makes the call for all who join, and waits for it as they do.
func (c *Cache) lead(ctx context.Context, f *flight, next steps.Call, args []byte) ([]byte, error) {
	escort, callbacks := newEscort(ctx)
	detached, cancel := context.WithCancelCause(steps.WithCallbacks(context.WithoutCancel(ctx), callbacks))
	f.cancel, f.escort = cancel, escort // read by the flight, and by the last who leaves: not before this one
	args = slices.Clone(args)           // the first caller may leave, and change its own
	go c.fly(&flightContext{detached, f}, f, next, args)
	o, err := c.wait(ctx, f)
	escort.leave()
	if err != nil {
		return nil, err
	}
	return o.answer, o.err
}

// fly calls the function. It lands in any case, as others wait.
func (c *Cache) fly(ctx context.Context, f *flight, next steps.Call, args []byte) {
	o := outcome{err: fault.New(fault.Internal, "the call ended without an answer")}
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				panicked := fault.New(fault.Internal, "the call failed with a panic: this is a defect of the function")
				panicked.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
				o = outcome{err: panicked}
			}
		}
		c.land(f, o)
	}()
	o.answer, o.err = next(ctx, args)
	returned = true
}

// land gives the outcome to all who wait, and keeps it if it may be.
func (c *Cache) land(f *flight, o outcome) {
	r := f.read
	o.personal = f.escort.personal.Load()
	keep := o.err == nil && !o.personal && len(o.answer) > 0 && c.fits(len(o.answer))
	if keep {
		o.answer = slices.Clone(o.answer) // the function may have given a piece of something larger
	}
	c.mu.Lock()
	f.outcome, f.landed = o, true
	if r.source != nil { // no write has come meanwhile
		delete(c.flights, r.key)
		if keep && r.fresh(time.Now(), r.ttl) {
			c.keep(r, o.answer)
		} else {
			r.forget()
		}
	}
	c.mu.Unlock()
	close(f.done)
	f.cancel(nil)
}

// wait waits for the outcome, but not longer than ctx lasts: then it is cancelled or timeout.
func (c *Cache) wait(ctx context.Context, f *flight) (outcome, error) {
	select {
	case <-f.done:
		return f.outcome, nil
	case <-ctx.Done():
	}
	if !c.leave(ctx, f) {
		<-f.done
		return f.outcome, nil
	}
	stopped := fault.New(fault.Cancelled, "the call was cancelled")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		stopped = fault.New(fault.Timeout, "the call was not answered in time")
	}
	stopped.Err = ctx.Err()
	return outcome{}, stopped
}

// leave counts one less who waits; the last cancels the flight. It is false where the flight has landed already.
func (c *Cache) leave(ctx context.Context, f *flight) bool {
	c.mu.Lock()
	if f.landed {
		c.mu.Unlock()
		return false
	}
	f.waiters--
	last := f.waiters == 0
	if last && f.read.source != nil {
		c.drop(f.read) // nobody joins what is cancelled
	}
	c.mu.Unlock()
	if last {
		f.cancel(context.Cause(ctx))
	}
	return true
}

// escort stands between a flight and its first caller's callbacks, which must not be used once that caller has left.
type escort struct {
	ctx      context.Context // the first caller's
	personal atomic.Bool

	mu   sync.RWMutex // held for reading while the callbacks are used
	left bool
}

// newEscort gives the callbacks for a flight that ctx leads.
func newEscort(ctx context.Context) (*escort, *steps.Callbacks) {
	e, own := &escort{ctx: ctx}, steps.CallbacksOf(ctx)
	guarded := &steps.Callbacks{}
	if own.Keep != nil {
		guarded.Keep = func(_ context.Context, value []byte) (token string, err error) {
			e.personal.Store(true)
			err = fault.New(fault.Cancelled, "the caller whose result store it is has left")
			e.with(func() { token, err = own.Keep(e.ctx, value) })
			return token, err
		}
	}
	if own.Progress != nil {
		guarded.Progress = func(_ context.Context, done, total float64, message string) {
			e.with(func() { own.Progress(e.ctx, done, total, message) })
		}
	}
	if own.Log != nil {
		guarded.Log = func(_ context.Context, level, logger string, data []byte) {
			e.with(func() { own.Log(e.ctx, level, logger, data) })
		}
	}
	return e, guarded
}

// with runs use while the first caller is there. Its context is used and not the flight's, so that use ends with it.
func (e *escort) with(use func()) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.left {
		use()
	}
}

func (e *escort) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
}
