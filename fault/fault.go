// Package fault defines the errors of all packages of onecall: a closed list of codes, each with its exit status, its HTTP status and
// whether a retry makes sense, and one error type that names the place and the remedy. It imports no other package of onecall.
package fault

import (
	"errors"
	"fmt"
	"slices"
)

// Outcome is the known effect of a call.
type Outcome string

// The outcomes of a call.
const (
	Applied     Outcome = "applied"      // the call succeeded, whatever failed later
	Failed      Outcome = "failed"       // the call failed
	NotSent     Outcome = "not_sent"     // the call was not sent: nothing was done, and it can be made again
	SentUnknown Outcome = "sent_unknown" // the call was sent, and its effect is not known
	Undone      Outcome = "undone"       // the call was applied and undone later
)

// outcomes are ordered by precedence for a call with several attempts: one success is enough, and a later refusal does not undo what may
// have been done.
var outcomes = []Outcome{Undone, Applied, SentUnknown, Failed, NotSent, ""}

// Outcomes returns all outcomes, by precedence for a call with several attempts.
func Outcomes() []Outcome { return outcomes[: len(outcomes)-1 : len(outcomes)-1] }

// Combine returns the outcome of a call with several attempts: a is the outcome of the earlier attempts, b that of the last one. "" means
// that there was no outcome.
func Combine(a, b Outcome) Outcome {
	return outcomes[min(slices.Index(outcomes, a), slices.Index(outcomes, b))]
}

// OutcomeOf returns the outcome of a call that writes, from its error: Applied for nil, SentUnknown for an error without a code, the
// error's own outcome if it has one, SentUnknown for an HTTP status of 500 or more, and otherwise the outcome of the code.
func OutcomeOf(err error) Outcome {
	f, ok := As(err)
	switch {
	case err == nil:
		return Applied
	case !ok || f == nil:
		return SentUnknown
	case f.Outcome != "":
		return f.Outcome
	case f.Status >= 500:
		return SentUnknown
	}
	return f.Code.info().outcome
}

// Error is a coded error. A zero field, except Code and Message, means "not known" or "does not apply".
type Error struct {
	Code    Code
	Message string // one or two sentences: what is wrong, and the remedy; no trailing line break

	// At is a JSON Pointer (RFC 6901) into the request; "": the whole request, or no place in it. A package sets it relative to the value
	// that it received, and its caller adds the prefix (see Under).
	At string

	// Line and Column, from 1, are the position in a text: a chain file, a configuration or a recording; 0: unknown. Columns count
	// characters.
	Line, Column int

	// Source is the line of text in which Offset, in bytes, marks the fault, for a caret; "": none.
	Source string
	Offset int

	Available []string // keys, names or values that would be accepted there
	Nearest   []string // the most similar of them, best first

	// Status and Body are the answer of a failed call: an HTTP status and its body as JSON, or the content of an MCP error.
	Status int
	Body   []byte

	// Outcome is the outcome of the failed call; "" for a read, or if the function itself reported the failure.
	Outcome Outcome

	Err error // the cause, for errors.Is and errors.As; not shown to callers
}

// New returns a coded error with a formatted message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error implements error: the code, the place if there is one, and the message.
func (e *Error) Error() string {
	if e.At != "" {
		return string(e.Code) + " at " + e.At + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Under returns a copy of e with prefix before its JSON Pointer.
func (e *Error) Under(prefix string) *Error {
	c := *e
	c.At = prefix + e.At
	return &c
}

// ErrWaiting is the cause (Err) of a fault for a call that was not started because it waited too long for its turn. The fault's
// message says so, and does not name the called service.
var ErrWaiting = errors.New("it waited for its turn")

// ErrUnknownKey is the cause (Err) of a fault about a key that is not accepted. At ends with the key, and the fault's position is that of
// the key, not of its value.
var ErrUnknownKey = errors.New("unknown key")

// As returns the first coded error in err's chain; nil and false if there is none.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// From returns err as a coded error with a place: its own, or at. An error without a code is Internal. err must not be nil.
func From(err error, at string) *Error {
	e, ok := As(err)
	if !ok {
		e = New(Internal, "%v", err)
		e.Err = err
	}
	if e.At == "" {
		e = e.Under(at)
	}
	return e
}

// CodeOf returns the code of err: "" for nil, Internal for an error without a code.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := As(err); ok {
		return e.Code
	}
	return Internal
}

// MarkUnsent returns a copy of the coded error in err's chain with the outcome NotSent, for a call that was refused before it was sent. If
// there is no coded error, or it has an outcome, it returns err.
func MarkUnsent(err error) error {
	f, coded := As(err)
	if !coded || f == nil || f.Outcome != "" {
		return err
	}
	unsent := *f
	unsent.Outcome = NotSent
	return &unsent
}
