package steps

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// maxErrorText bounds, in bytes, the text of an error without a code.
const maxErrorText = 2000

// grace is how long a function may take to return after its context is done, before it is abandoned.
const grace = 100 * time.Millisecond

// Call validates the arguments and calls the function. args must not be changed before the function has returned, also
// when Call returned earlier because the function did not heed its context. The result is one JSON value, compact, at
// most MaxResultBytes long. Every error is a *fault.Error:
//
//   - bad_arguments: args are no JSON object, nested more than 1,000 deep, or do not fit the input schema; the function
//     was not called;
//   - timeout, cancelled: ctx ended before an answer came; a *fault.Error given as its cause (context.Cause) comes back
//     instead. What the function answers within 100 ms of the end still counts, so that a write that was done is known
//     as done; a function that takes longer is abandoned, and its answer is dropped;
//   - limit_exceeded: the result is too long; or the arguments would take more work to check than their size allows, and
//     the function was not called;
//   - internal: the function panicked, or its result is no JSON value; the cause (Err) tells more than the message;
//   - the code that the function gave; function_failed where it gave an error without a code.
func (e *Entry) Call(ctx context.Context, args []byte) ([]byte, error) {
	args, f := e.Accept(ctx, args)
	if f != nil {
		return nil, f
	}
	return e.Send(ctx, args)
}

// Accept validates arguments and gives them as a call sends them: with names as they are declared, and defaults in the gaps. Its
// faults are those of Call for a function that was not called.
func (e *Entry) Accept(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	args, f := e.accept(ctx, args)
	if f == nil && ctx.Err() != nil {
		f = e.stopped(ctx)
	}
	if f != nil {
		e.mark(f, fault.NotSent)
		return nil, f
	}
	return args, nil
}

// Send calls the function with arguments that Accept gave.
func (e *Entry) Send(ctx context.Context, args []byte) ([]byte, error) {
	if len(e.observers) > 0 {
		ctx = withStatus(ctx)
	}
	var result []byte
	var f *fault.Error
	if ctx.Done() == nil || e.prompt {
		result, f = e.perform(ctx, args)
	} else {
		result, f = e.watch(ctx, args)
	}
	var err error // not f, which would not be nil
	if f != nil {
		result, err = nil, f
	}
	for _, observe := range e.observers {
		observe(ctx, e.spec, args, result, err)
	}
	if f != nil {
		if mark, ok := f.Err.(*ofSource); ok { //nolint:errorlint // of this error, not of one that it was caused by
			err = WithoutCause(ctx, mark.source, f)
		}
	}
	return result, err
}

// outcome is what a call came to.
type outcome struct {
	result []byte
	fault  *fault.Error
}

// watch calls on a goroutine of its own, so that the caller can leave a function that does not heed its context.
func (e *Entry) watch(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	done := make(chan outcome, 1)
	go e.deliver(ctx, args, done)
	select {
	case o := <-done:
		return o.result, o.fault
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.result, o.fault
	case <-timer.C:
		f := e.stopped(ctx)
		e.mark(f, fault.SentUnknown) // it goes on
		return nil, f
	}
}

// mark says what became of a call of a function that writes.
func (c *compiled) mark(f *fault.Error, outcome fault.Outcome) {
	if c.spec.Effect != Read {
		f.Outcome = outcome
	}
}

// deliver sends exactly one outcome, also when the function ends its goroutine (runtime.Goexit).
func (e *Entry) deliver(ctx context.Context, args []byte, done chan<- outcome) {
	growStack()
	var o outcome
	returned := false
	defer func() {
		if !returned {
			o.fault = fault.New(fault.Internal, "%s ended without an answer", e.spec.Name)
		}
		done <- o
	}()
	o.result, o.fault = e.perform(ctx, args)
	returned = true
}

// growStack makes room on a new goroutine's stack for what a call goes through, while there is nothing on it that would be copied.
//
//go:noinline
func growStack() {
	var room [4 << 10]byte
	runtime.KeepAlive(&room)
}

// perform calls the function within its wrappings.
func (e *Entry) perform(ctx context.Context, args []byte) (result []byte, f *fault.Error) {
	defer func() {
		if v := recover(); v != nil {
			result, f = nil, e.panicked(v)
		}
	}()
	result, err := e.call(ctx, args)
	if err != nil {
		return nil, e.coded(ctx, err)
	}
	if len(result) == 0 {
		return nil, fault.New(fault.Internal, "%s answered nothing", e.spec.Name)
	}
	return result, nil
}

// guard makes a function's raw call keep what Registry.Wrap promises of it.
func (c *compiled) guard(raw Call) Call {
	return func(ctx context.Context, args []byte) (result []byte, err error) {
		defer func() {
			if v := recover(); v != nil {
				result, err = nil, c.panicked(v)
			}
		}()
		if c.spec.reclassified || ctx.Value(effectKey{}) != nil { // of a function that calls this one
			ctx = context.WithValue(ctx, effectKey{}, c.spec.Effect)
		}
		if result, err = raw(ctx, args); err != nil {
			return nil, c.coded(ctx, err)
		}
		compact, f := schema.CompactWithin(result, schema.MaxResultDepth)
		switch {
		case f != nil:
			f.Code, f.Message = fault.Internal, c.spec.Name+" answered what is not JSON: "+f.Message
		case c.maxResult >= 0 && int64(len(compact)) > c.maxResult:
			f = fault.New(fault.LimitExceeded, "%s answered %d bytes, the limit for a result is %d: ask for less or raise limits.maxResultBytes",
				c.spec.Name, len(compact), c.maxResult)
		default:
			return compact, nil
		}
		c.mark(f, fault.Applied)
		return nil, f
	}
}

// panicked hides the value and the stack from the caller; the cause keeps them for logs.
func (c *compiled) panicked(v any) *fault.Error {
	f := fault.New(fault.Internal, "%s failed with a panic: this is a defect of the function", c.spec.Name)
	f.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	return f
}

// coded gives every error a code. An error that only says that ctx ended becomes what ended it.
func (c *compiled) coded(ctx context.Context, err error) *fault.Error {
	f, ok := fault.As(err)
	if ok && f == nil {
		return fault.New(fault.Internal, "%s failed without saying how", c.spec.Name)
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case ended && ctx.Err() != nil:
		stopped := c.stopped(ctx)
		stopped.Err = err
		if ok {
			stopped.Outcome = f.Outcome
		}
		return stopped
	case ok:
		return f
	}
	f = fault.New(fault.FunctionFailed, "%s: %s", c.spec.Name, fault.Clip(strings.TrimSpace(err.Error()), maxErrorText))
	if errors.Is(err, context.DeadlineExceeded) {
		f.Code = fault.Timeout
	}
	f.Err = err
	return f
}

// stopped is the fault for a context that has ended.
func (c *compiled) stopped(ctx context.Context) *fault.Error {
	cause := context.Cause(ctx)
	if f, ok := fault.As(cause); ok && f != nil {
		given := *f
		return &given
	}
	f := fault.New(fault.Cancelled, "%s was cancelled", c.spec.Name)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = fault.New(fault.Timeout, "%s did not answer in time", c.spec.Name)
	}
	f.Err = cause
	return f
}
