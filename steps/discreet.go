package steps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Why a source is not there tells of the machine that onecall runs on and of its network: programs with their paths, hosts,
// the last words of processes. That is for who operates it. Other callers are told what they can act on, in words that hold
// nothing of the cause: that the source is not there, since when, whether it is tried again, and who knows more.

// causeKey is where a context has who is told the causes that its caller is not.
type causeKey struct{}

// WithoutCauses gives the context of a caller that is not told why a source is not there, or cannot be called. tell is given
// what is kept from it, for the log, by many goroutines; secrets of the configuration are in it still.
func WithoutCauses(ctx context.Context, tell func(ctx context.Context, source string, cause *fault.Error)) context.Context {
	return context.WithValue(ctx, causeKey{}, tell)
}

// Discreet tells whether the context is that of a caller which is not told causes.
func Discreet(ctx context.Context) bool { return ctx.Value(causeKey{}) != nil }

// WithoutCause is an error of a source as the caller whom ctx belongs to may read it; what begins the message, such as the name
// of the function that was called. What tells of the work of a call, and not of the source, stays as it is, and everything for a
// caller that is told causes. The code, the status and the outcome stay. A call whose own time is over, in a context with a
// deadline, ends of that.
func WithoutCause(ctx context.Context, source, what string, f *fault.Error) *fault.Error {
	tell, ok := ctx.Value(causeKey{}).(func(context.Context, string, *fault.Error))
	if !ok || f == nil || !tellsOfSource(ctx, f) {
		return f
	}
	if f.Code == fault.Timeout && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// The call's own time is over: there is no other cause. What the source has said of it may still tell of the way to it.
		return &fault.Error{Code: f.Code, Status: f.Status, Outcome: f.Outcome, Message: what + " was not answered before the time of the call was over" + unknown(f)}
	}
	tell(ctx, source, f)
	told := &fault.Error{Code: f.Code, Status: f.Status, Outcome: f.Outcome, Message: what}
	switch f.Code {
	case fault.Timeout:
		told.Message += " was not answered in time"
	case fault.Unavailable:
		told.Message += ": the source " + source + " cannot be reached now"
	case fault.Denied:
		told.Message += ": the source " + source + " wants a login, or another configuration"
	default:
		told.Message += ": the source " + source + " cannot be used as it is configured"
	}
	told.Message += unknown(f) + "; " + inLog
	return told
}

// unknown says of a call that broke off that nobody knows what became of it, where that is so.
func unknown(f *fault.Error) string {
	if f.Outcome != fault.SentUnknown {
		return ""
	}
	return ", and it is not known whether the work of the call was done"
}

// inLog is where the cause is.
const inLog = "the log of who operates onecall has the cause"

// tellsOfSource tells whether an error is about a source and the way to it: else the source has taken up the call, and tells of
// that.
func tellsOfSource(ctx context.Context, f *fault.Error) bool {
	if errors.Is(f, fault.ErrWaiting) {
		return false
	}
	switch f.Code {
	case fault.Cancelled, fault.Busy, fault.BadArguments, fault.LimitExceeded:
		return false
	case fault.Unavailable, fault.Timeout, fault.Denied:
		if f.Status != 0 && f.Outcome != fault.NotSent {
			return false // it is what the source answered
		}
	default:
		if f.Outcome != fault.NotSent {
			return false
		}
	}
	if ctx.Err() == nil {
		return true
	}
	given, ok := fault.As(context.Cause(ctx)) // why a chain or its session has ended is in the words of who ended it
	return !errors.Is(f, ctx.Err()) && !(ok && given != nil && given.Message == f.Message)
}

// ofSource marks the errors of a source's functions. Callers who wait for the same call get the same error: what each of them is
// told of it is decided where it comes back to the caller.
type ofSource struct {
	source string
	err    error // what the mark stands in place of; may be nil
}

// Error implements error.
func (o *ofSource) Error() string { return "the source " + o.source + " failed" }

// Unwrap gives what the mark stands in place of.
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

// asTold is the error of a call of a function as the caller whom ctx belongs to may read it.
func asTold(ctx context.Context, function string, f *fault.Error) *fault.Error {
	if mark, ok := f.Err.(*ofSource); ok { //nolint:errorlint // of this error, not of one that it was caused by
		return WithoutCause(ctx, mark.source, function, f)
	}
	return f
}

// without is what is known of a source, without the cause: why it is not there is told by what becomes of it.
func (s SourceInfo) without() SourceInfo {
	if s.Error == nil {
		return s
	}
	told := &fault.Error{Code: s.Error.Code, Message: "it is tried again by itself"}
	switch {
	case s.State != StateRetrying:
		told.Message = "it has to be mended"
	case s.Error.Code == fault.Denied:
		told.Message = "it wants a login, or other credentials"
	}
	told.Message += "; " + inLog
	s.Error = told
	return s
}

// Away is what a fault of code unavailable wraps (errors.As) whose function is not found because its source is not there, but
// comes by itself: it is starting, or retrying.
type Away struct {
	Message string // names the source and its state, and says when it is tried again where that is known
	Err     error  // why it is retrying; nil: it is starting
}

// Error implements error.
func (a *Away) Error() string { return a.Message }

// Unwrap gives the cause.
func (a *Away) Unwrap() error { return a.Err }

// down says of a source that is not there why a function of it is not found.
func (s SourceInfo) down(discreet bool) *fault.Error {
	state := fmt.Sprintf("the source %q is %s", s.Name, s.State)
	since, wait := "", ""
	if discreet && s.Error != nil && !s.Since.IsZero() {
		since = " since " + s.Since.UTC().Format(time.RFC3339)
	}
	if left := time.Until(s.Retry); s.State == StateRetrying && left > 0 {
		wait = fmt.Sprintf(", tried again in %d s", int(math.Ceil(left.Seconds())))
	}
	f := fault.New(fault.Unavailable, "%s", state+since+wait)
	if len(s.Functions) == 0 {
		f.Message += ", its functions are not known"
	}
	if s.Error != nil {
		if discreet {
			s = s.without()
		}
		f.Message += ": " + s.Error.Message
		f.Err = s.Error
	}
	if s.State == StateStarting || s.State == StateRetrying {
		f.Err = &Away{Message: state + wait, Err: f.Err}
	}
	return f
}
