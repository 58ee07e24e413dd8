package steps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// The reason why a source is unavailable may name programs, paths and hosts of onecall's machine. So it goes only to the log and to
// admins; other callers read only that the source is unavailable.

// causeKey is the context key of the function that logs hidden causes.
type causeKey struct{}

// WithoutCauses returns the context of a caller that must not learn why a source is unavailable. log receives each hidden
// cause, from many goroutines; configuration secrets are not removed from it.
func WithoutCauses(ctx context.Context, log func(ctx context.Context, source string, cause *fault.Error)) context.Context {
	return context.WithValue(ctx, causeKey{}, log)
}

// HidesCauses reports whether ctx comes from WithoutCauses.
func HidesCauses(ctx context.Context) bool { return ctx.Value(causeKey{}) != nil }

// HideCause returns a source's error as the caller of ctx may read it. The code, the status and the outcome stay; the message says
// only that the source is unavailable. An error in the source's answer to the call itself is not hidden.
func HideCause(ctx context.Context, source string, f *fault.Error) *fault.Error {
	log, ok := ctx.Value(causeKey{}).(func(context.Context, string, *fault.Error))
	if !ok || f == nil || !isCause(ctx, f) {
		return f
	}
	if f.Code == fault.Timeout && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return faultWithoutCause(source, f, "") // the call's own time is over: the operator need not know
	}
	log(ctx, source, f)
	return faultWithoutCause(source, f, "; "+inLog)
}

// inLog tells the caller where the cause is.
const inLog = "the operator's log has the cause"

// faultWithoutCause returns a fault with the code, status and outcome of f, whose message says only that the source is unavailable. It ends
// in hint, which says where the cause is; "": nothing is said of that.
func faultWithoutCause(source string, f *fault.Error, hint string) *fault.Error {
	what := "is unavailable"
	if f.Code == fault.Timeout {
		what = "did not answer in time"
	}
	if f.Outcome == fault.SentUnknown { // the message says so, too: the caller must know
		what += ", and it is not known whether the call was carried out"
	}
	return &fault.Error{Code: f.Code, Status: f.Status, Outcome: f.Outcome, Message: "the source " + fault.Quote(source) + " " + what + hint}
}

// isCause reports whether an error is about the source or the connection to it, and not an answer of the source to the call.
func isCause(ctx context.Context, f *fault.Error) bool {
	if errors.Is(f, fault.ErrWaiting) || errors.Is(f, ErrCredential) {
		return false
	}
	if ended, ok := fault.As(context.Cause(ctx)); ok && ended != nil && ended.Message == f.Message {
		return false // the chain has ended for this reason
	}
	switch f.Code {
	case fault.Cancelled, fault.Busy, fault.BadArguments, fault.LimitExceeded:
		return false
	case fault.Unavailable, fault.Timeout, fault.Denied:
		return f.Status == 0 || f.Outcome == fault.NotSent // a status is an answer of the source
	}
	return f.Outcome == fault.NotSent
}

// sourceError marks an error as an error of a source's function. Several callers may wait for the same call and get the same error;
// the rights of each caller decide what it reads.
type sourceError struct {
	source string
	err    error // the cause of the marked error; may be nil
}

// Error implements error.
func (e *sourceError) Error() string { return "the source " + e.source + " failed" }

// Unwrap returns the cause of the marked error.
func (e *sourceError) Unwrap() error { return e.err }

// markErrors marks the errors of a call as those of a source.
func markErrors(source string, call Call) Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		result, err := call(ctx, args)
		if f, ok := fault.As(err); ok && f != nil {
			marked := *f
			marked.Err = &sourceError{source, f.Err}
			err = &marked
		}
		return result, err
	}
}

// withoutCause returns the info without the cause of its error, unless that is the caller's own credential.
func (s SourceInfo) withoutCause() SourceInfo {
	if own := credentialCause(s.Error); own != nil {
		s.Error = own
		return s
	}
	s.hideCause, s.Differing = true, nil // what differs is for operators
	switch {
	case s.State == StateLocked: // what the caller can do
	case hasKnownFunctions(s.State): // a warning about functions that are left out is for operators
		s.Error = nil
	case s.Error != nil:
		s.Error = faultWithoutCause(s.Name, s.Error, "; "+inLog)
	}
	return s
}

// credentialCause returns what a fault says of the caller's own credential, without what stands around it, such as the address of a server;
// nil: nothing.
func credentialCause(f *fault.Error) (own *fault.Error) {
	for f != nil && errors.Is(f, ErrCredential) {
		var inner *fault.Error
		if own = f; !errors.As(f.Err, &inner) {
			break
		}
		f = inner
	}
	return own
}

// NotReady is wrapped by an unavailable fault if the function is not found because its source is starting or will be retried.
type NotReady struct {
	Message string // names the source, its state and, if known, when it is tried again
	Err     error  // why it is being retried; nil: it is starting
}

// Error implements error.
func (n *NotReady) Error() string { return n.Message }

// Unwrap returns the cause.
func (n *NotReady) Unwrap() error { return n.Err }

// unavailable explains why a function of an unavailable source is not found.
func (s SourceInfo) unavailable() *fault.Error {
	if s.State == StateLocked && s.Error != nil {
		missing := *s.Error
		return &missing
	}
	state := fmt.Sprintf("the source %q is %s", s.Name, s.State)
	if wait := time.Until(s.Retry); s.State == StateRetrying && wait > 0 {
		state += fmt.Sprintf(", next try in %d s", int(math.Ceil(wait.Seconds())))
	}
	f := fault.New(fault.Unavailable, "%s", state)
	if len(s.Functions) == 0 {
		f.Message += ", its functions are not known"
	}
	switch {
	case s.Error == nil:
	case s.hideCause:
		f.Message += "; " + inLog
	default:
		f.Message += ": " + s.Error.Message
		f.Err = s.Error
	}
	if s.State == StateStarting || s.State == StateRetrying {
		f.Err = &NotReady{Message: state, Err: f.Err}
	}
	return f
}
