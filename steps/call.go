package steps

import (
	"bytes"
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

// Call validates the arguments and calls the function. The caller must not change args before the function has returned,
// even if Call returns earlier because the function ignores its context. The result is one compact JSON value of at most
// MaxResultBytes. Every error is a *fault.Error:
//
//   - bad_arguments: args is not a JSON object, is nested more than 1,000 deep, or does not match the input schema; the
//     function was not called;
//   - timeout, cancelled: ctx ended before an answer came. If its cause (context.Cause) is a *fault.Error, that is returned
//     instead. An answer within 100 ms of the end still counts, so that a write that was done is reported as done; a
//     function that takes longer is abandoned, and its answer is dropped;
//   - limit_exceeded: the result is too long, or checking the arguments would take more work than their size allows; in the
//     second case the function was not called;
//   - internal: the function panicked, or its result is not JSON; the cause (Err) has the details;
//   - the code that the function returned; function_failed if its error has no code.
func (e *Entry) Call(ctx context.Context, args []byte) ([]byte, error) {
	args, f := e.Accept(ctx, args)
	if f != nil {
		return nil, f
	}
	return e.Send(ctx, args)
}

// Accept validates arguments and returns them as they are sent: with declared names and with defaults filled in. Its faults
// are those of Call for a function that was not called.
func (e *Entry) Accept(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	args, f := e.checkArguments(ctx, args)
	if f == nil && ctx.Err() != nil {
		f = e.contextFault(ctx)
	}
	if f != nil {
		e.markOutcome(f, fault.NotSent)
		return nil, f
	}
	return args, nil
}

// Send calls the function with arguments that Accept returned.
func (e *Entry) Send(ctx context.Context, args []byte) ([]byte, error) {
	if len(e.observers) > 0 {
		ctx = withReport(ctx)
	}
	var result []byte
	var f *fault.Error
	if ctx.Done() == nil || e.prompt {
		result, f = e.invoke(ctx, args)
	} else {
		result, f = e.watch(ctx, args)
	}
	var err error // assigning a nil f would make it non-nil
	if f != nil {
		result, err = nil, f
	}
	for _, observe := range e.observers {
		observe(ctx, e.spec, args, result, err)
	}
	if f != nil {
		if source, ok := f.Err.(*sourceError); ok { //nolint:errorlint // the mark of this error, not of its cause
			err = HideCause(ctx, source.source, f)
		}
	}
	return result, err
}

// callResult is the result of one call: a value or a fault.
type callResult struct {
	result []byte
	fault  *fault.Error
}

// watch runs the call on its own goroutine, so that the caller can abandon a function that ignores its context.
func (e *Entry) watch(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	done := make(chan callResult, 1)
	go e.deliver(ctx, args, done)
	select {
	case result := <-done:
		return result.result, result.fault
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case result := <-done:
		return result.result, result.fault
	case <-timer.C:
		f := e.contextFault(ctx)
		e.markOutcome(f, fault.SentUnknown) // it is still running
		return nil, f
	}
}

// markOutcome sets the outcome of a failed call if the function writes.
func (c *compiledFunction) markOutcome(f *fault.Error, outcome fault.Outcome) {
	if c.spec.Effect != Read {
		f.Outcome = outcome
	}
}

// deliver sends exactly one result, even if the function ends its goroutine (runtime.Goexit).
func (e *Entry) deliver(ctx context.Context, args []byte, done chan<- callResult) {
	growStack()
	var result callResult
	returned := false
	defer func() {
		if !returned {
			result.fault = fault.New(fault.Internal, "%s ended without an answer", e.spec.Name)
		}
		done <- result
	}()
	result.result, result.fault = e.invoke(ctx, args)
	returned = true
}

// growStack grows the stack of a new goroutine to what a call needs, while there is nothing on it to copy.
//
//go:noinline
func growStack() {
	var scratch [4 << 10]byte
	runtime.KeepAlive(&scratch)
}

// invoke calls the function through its wrappers and recovers from their panics.
func (e *Entry) invoke(ctx context.Context, args []byte) (result []byte, f *fault.Error) {
	defer func() {
		if v := recover(); v != nil {
			result, f = nil, e.panicFault(v)
		}
	}()
	result, err := e.call(ctx, args)
	if err != nil {
		return nil, e.withCode(ctx, err)
	}
	if len(result) == 0 {
		return nil, fault.New(fault.Internal, "%s answered nothing", e.spec.Name)
	}
	return result, nil
}

// guard makes a raw call keep the promises of Registry.Wrap. takesMarks: see Spec.TakesMarks.
func (c *compiledFunction) guard(raw Call, takesMarks bool) Call {
	return func(ctx context.Context, args []byte) (result []byte, err error) {
		defer func() {
			if v := recover(); v != nil {
				result, err = nil, c.panicFault(v)
			}
		}()
		if c.spec.effectOverridden || ctx.Value(effectKey{}) != nil { // ctx may carry the effect of an outer function
			ctx = WithEffect(ctx, c.spec.Effect)
		}
		if c.spec.Result != "" {
			ctx = WithResult(ctx, c.spec.Result)
		}
		if !takesMarks && bytes.Contains(args, []byte(blockMark)) {
			expanded, release, err := CallbacksOf(ctx).Blocks.ExpandHeld(args)
			if err != nil {
				return nil, c.withCode(ctx, fault.MarkUnsent(err))
			}
			if args = expanded; release != nil {
				defer release()
			}
		}
		if result, err = raw(ctx, args); err != nil {
			return nil, c.withCode(ctx, err)
		}
		compact, f := schema.CompactWithin(result, schema.MaxResultDepth)
		switch {
		case f != nil:
			f.Code, f.Message = fault.Internal, "the result of "+c.spec.Name+" is not valid JSON: "+f.Message
		case c.maxResult >= 0 && int64(len(compact)) > c.maxResult:
			f = fault.New(fault.LimitExceeded, "%s answered %d bytes, the limit for a result is %d: ask for less or raise limits.maxResultBytes",
				c.spec.Name, len(compact), c.maxResult)
		default:
			return compact, nil
		}
		c.markOutcome(f, fault.Applied)
		return nil, f
	}
}

// panicFault hides the panic value and the stack from the caller; Err keeps them for logs.
func (c *compiledFunction) panicFault(v any) *fault.Error {
	f := fault.New(fault.Internal, "%s failed with a panic: this is a defect of the function", c.spec.Name)
	f.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	return f
}

// withCode gives every error a code. An error that only reports the end of ctx becomes the fault that ended ctx.
func (c *compiledFunction) withCode(ctx context.Context, err error) *fault.Error {
	f, ok := fault.As(err)
	if ok && f == nil { // a nil *fault.Error in an error that is not nil
		return fault.New(fault.Internal, "%s failed without saying how", c.spec.Name)
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case ended && ctx.Err() != nil:
		stopped := c.contextFault(ctx)
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

// contextFault returns the fault of a context that has ended.
func (c *compiledFunction) contextFault(ctx context.Context) *fault.Error {
	cause := context.Cause(ctx)
	if f, ok := fault.As(cause); ok && f != nil {
		copied := *f // callers set its outcome
		return &copied
	}
	f := fault.New(fault.Cancelled, "%s was cancelled", c.spec.Name)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = fault.New(fault.Timeout, "%s did not answer in time", c.spec.Name)
	}
	f.Err = cause
	return f
}
