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

// flight is a running read with its waiters.
type flight struct {
	read    *cachedRead
	waiters int  // guarded by Cache.mu
	ended   bool // result is set; guarded by Cache.mu, too
	// deadline is the latest deadline of all waiters; nil: one of them had no deadline. The function sees this deadline, so that it does
	// not give up when an impatient waiter leaves; each waiter keeps its own. Written under Cache.mu.
	deadline atomic.Pointer[time.Time]
	cancel   context.CancelCauseFunc
	guard    *callbackGuard

	done   chan struct{} // closed soon after ended is set
	result readResult
}

// readResult is the result of a read. If private is true, the call used the first caller's result store or blocks, and the answer is for
// that caller only.
type readResult struct {
	answer  []byte
	err     error
	private bool
}

func newFlight(r *cachedRead) *flight { return &flight{read: r, done: make(chan struct{})} }

// join adds a waiter. Cache.mu is held.
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

// flightContext has the values of the first caller's context. It ends when the last waiter leaves, or when the call has ended.
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

// start makes the call for all callers that join, and waits for it like them.
func (c *Cache) start(ctx context.Context, f *flight, next steps.Call, args []byte) ([]byte, error) {
	guard, callbacks := newCallbackGuard(ctx)
	detached, cancel := context.WithCancelCause(steps.WithCallbacks(context.WithoutCancel(ctx), callbacks))
	// run reads them, and so does the last waiter, which cannot leave before they are set: this caller is a waiter, too.
	f.cancel, f.guard = cancel, guard
	args = slices.Clone(args) // the first caller may leave, and change its arguments
	go c.run(&flightContext{detached, f}, f, next, args)
	o, err := c.wait(ctx, f)
	guard.disable()
	if err != nil {
		return nil, err
	}
	return o.answer, o.err
}

// run calls the function. It always calls finish, because callers wait.
func (c *Cache) run(ctx context.Context, f *flight, next steps.Call, args []byte) {
	o := readResult{err: fault.New(fault.Internal, "the call ended without an answer")}
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				panicked := fault.New(fault.Internal, "the call failed with a panic: this is a defect of the function")
				panicked.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
				o = readResult{err: panicked}
			}
		}
		c.finish(f, o)
	}()
	o.answer, o.err = next(ctx, args)
	returned = true
}

// finish gives the result to all waiters, and stores it if that is allowed.
func (c *Cache) finish(f *flight, o readResult) {
	r := f.read
	o.private = f.guard.private.Load()
	keep := o.err == nil && !o.private && len(o.answer) > 0 && c.canStore(len(o.answer))
	if keep {
		o.answer = slices.Clone(o.answer) // the function may have returned a slice of something larger
	}
	c.mu.Lock()
	f.result, f.ended = o, true
	if r.source != nil { // no write, Flush or departure of the last waiter has dropped the read
		delete(c.flights, r.key)
		if keep && r.fresh(time.Now(), r.ttl) {
			c.store(r, o.answer)
		} else {
			r.forget()
		}
	}
	c.mu.Unlock()
	close(f.done)
	f.cancel(nil)
}

// wait waits for the result, at most as long as ctx lasts; then it fails with cancelled or timeout.
func (c *Cache) wait(ctx context.Context, f *flight) (readResult, error) {
	select {
	case <-f.done:
		return f.result, nil
	case <-ctx.Done():
	}
	if !c.removeWaiter(ctx, f) {
		<-f.done
		return f.result, nil
	}
	stopped := fault.New(fault.Cancelled, "the call was cancelled")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		stopped = fault.New(fault.Timeout, "the call was not answered in time")
	}
	stopped.Err = ctx.Err()
	return readResult{}, stopped
}

// removeWaiter removes a waiter; the last one cancels the flight. It returns false if the flight has ended.
func (c *Cache) removeWaiter(ctx context.Context, f *flight) bool {
	c.mu.Lock()
	if f.ended {
		c.mu.Unlock()
		return false
	}
	f.waiters--
	last := f.waiters == 0
	if last && f.read.source != nil {
		c.drop(f.read) // no caller joins a cancelled read
	}
	c.mu.Unlock()
	if last {
		f.cancel(context.Cause(ctx))
	}
	return true
}

// callbackGuard stands between a flight and its first caller's callbacks, which must not be used after that caller has left.
type callbackGuard struct {
	ctx     context.Context // the first caller's
	private atomic.Bool

	mu         sync.RWMutex // held for reading while callbacks are used
	callerLeft bool
}

// newCallbackGuard returns the guard of a flight that the caller of ctx starts, and those callbacks of that caller that the flight may use:
// Keep, Kept, Progress and Log.
func newCallbackGuard(ctx context.Context) (*callbackGuard, *steps.Callbacks) {
	e, callbacks := &callbackGuard{ctx: ctx}, steps.CallbacksOf(ctx)
	guarded := &steps.Callbacks{Blocks: callbacks.Blocks.Watch(func() { e.private.Store(true) })}
	if callbacks.Keep != nil {
		guarded.Keep = func(_ context.Context, value []byte) (token string, err error) {
			e.private.Store(true)
			// This error stays if the caller has left; otherwise the function below replaces it.
			err = fault.New(fault.Cancelled, "the caller that owns the result store has left")
			e.do(func() { token, err = callbacks.Keep(e.ctx, value) })
			return token, err
		}
	}
	if callbacks.Kept != nil {
		guarded.Kept = func(_ context.Context, token string) (value []byte, err error) {
			e.private.Store(true) // the value is the caller's own
			err = fault.New(fault.Cancelled, "the caller that owns the result store has left")
			e.do(func() { value, err = callbacks.Kept(e.ctx, token) })
			return value, err
		}
	}
	if callbacks.Progress != nil {
		guarded.Progress = func(_ context.Context, done, total float64, message string) {
			e.do(func() { callbacks.Progress(e.ctx, done, total, message) })
		}
	}
	if callbacks.Log != nil {
		guarded.Log = func(_ context.Context, level, logger string, data []byte) {
			e.do(func() { callbacks.Log(e.ctx, level, logger, data) })
		}
	}
	return e, guarded
}

// do calls use if the first caller still waits. Callbacks get that caller's context, not the flight's, so that they end with the caller.
func (e *callbackGuard) do(use func()) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.callerLeft {
		use()
	}
}

// disable waits until no callback is in use; from then on none is called.
func (e *callbackGuard) disable() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.callerLeft = true
}
