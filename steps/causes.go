package steps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Why a source is unavailable names programs, paths and hosts of the machine that onecall runs on. The log has it, and admins
// read it. Other callers read that the source is unavailable.

// causeKey is where the context of a caller that is not told causes has who logs them.
type causeKey struct{}

// WithoutCauses gives the context of a caller that is not told why a source is unavailable. log gets each cause that is kept
// from it, by many goroutines; secrets of the configuration are still in it.
func WithoutCauses(ctx context.Context, log func(ctx context.Context, source string, cause *fault.Error)) context.Context {
	return context.WithValue(ctx, causeKey{}, log)
}

// Discreet reports whether ctx is that of a caller that is not told causes.
func Discreet(ctx context.Context) bool { return ctx.Value(causeKey{}) != nil }

// WithoutCause is an error of a source as the caller of ctx may read it: the code, the status and the outcome stay, and the
// message says no more than that the source is unavailable. What the source answered to the call stays whole.
func WithoutCause(ctx context.Context, source string, f *fault.Error) *fault.Error {
	log, ok := ctx.Value(causeKey{}).(func(context.Context, string, *fault.Error))
	if !ok || f == nil || !isCause(ctx, f) {
		return f
	}
	if f.Code == fault.Timeout && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return unavailable(source, f, "") // the call's own time is over: no operator has to know
	}
	log(ctx, source, f)
	return unavailable(source, f, "; "+inLog)
}

// inLog is where the cause is.
const inLog = "the operator's log has the cause"

// unavailable is what is told in the place of f; where says where its cause is.
func unavailable(source string, f *fault.Error, where string) *fault.Error {
	what := "is unavailable"
	if f.Code == fault.Timeout {
		what = "did not answer in time"
	}
	if f.Outcome == fault.SentUnknown { // errors without an outcome of their own, as MCP requests have, must say it
		what += ", and it is not known whether the call was carried out"
	}
	return &fault.Error{Code: f.Code, Status: f.Status, Outcome: f.Outcome, Message: "the source " + fault.Quote(source) + " " + what + where}
}

// isCause reports whether an error tells of a source or of the way to it, and not of the call that the source worked on.
func isCause(ctx context.Context, f *fault.Error) bool {
	if errors.Is(f, fault.ErrWaiting) {
		return false
	}
	if ended, ok := fault.As(context.Cause(ctx)); ok && ended != nil && ended.Message == f.Message {
		return false // the chain has ended, and says why
	}
	switch f.Code {
	case fault.Cancelled, fault.Busy, fault.BadArguments, fault.LimitExceeded:
		return false
	case fault.Unavailable, fault.Timeout, fault.Denied:
		return f.Status == 0 || f.Outcome == fault.NotSent
	}
	return f.Outcome == fault.NotSent
}

// ofSource marks the errors of a source's functions. Callers who wait for the same call get the same error, and what each
// may read is decided when it comes back to the caller.
type ofSource struct {
	source string
	err    error // the marked error's own cause; may be nil
}

// Error implements error.
func (o *ofSource) Error() string { return "the source " + o.source + " failed" }

// Unwrap gives the error's own cause.
func (o *ofSource) Unwrap() error { return o.err }

// marked makes a function mark its errors as those of a source.
func marked(source string, call Call) Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		result, err := call(ctx, args)
		if f, ok := fault.As(err); ok && f != nil {
			own := *f
			own.Err = &ofSource{source, f.Err}
			err = &own
		}
		return result, err
	}
}

// without is what is known of a source, without the cause.
func (s SourceInfo) without() SourceInfo {
	s.discreet = true
	switch {
	case isThere(s.State): // what is left out of it is for those who mend it
		s.Error = nil
	case s.Error != nil:
		s.Error = unavailable(s.Name, s.Error, "; "+inLog)
	}
	return s
}

// Away is what a fault of code unavailable wraps (errors.As) if the function is not found because its source is starting, or
// is tried again by itself.
type Away struct {
	Message string // names the source and its state, and says when it is tried again if that is known
	Err     error  // why it is retrying; nil: it is starting
}

// Error implements error.
func (a *Away) Error() string { return a.Message }

// Unwrap gives the cause.
func (a *Away) Unwrap() error { return a.Err }

// down says of a source that is unavailable why a function of it is not found.
func (s SourceInfo) down() *fault.Error {
	state := fmt.Sprintf("the source %q is %s", s.Name, s.State)
	if left := time.Until(s.Retry); s.State == StateRetrying && left > 0 {
		state += fmt.Sprintf(", tried again in %d s", int(math.Ceil(left.Seconds())))
	}
	f := fault.New(fault.Unavailable, "%s", state)
	if len(s.Functions) == 0 {
		f.Message += ", its functions are not known"
	}
	switch {
	case s.Error == nil:
	case s.discreet:
		f.Message += "; " + inLog
	default:
		f.Message += ": " + s.Error.Message
		f.Err = s.Error
	}
	if s.State == StateStarting || s.State == StateRetrying {
		f.Err = &Away{Message: state, Err: f.Err}
	}
	return f
}
