// Package fault holds what every room of onecall answers when something is wrong: one closed list of codes, each with
// its exit status, its HTTP status and whether a retry makes sense, and one error type that names the place and the
// remedy. It knows nothing of references, steps, budgets or chains.
package fault

import (
	"errors"
	"fmt"
	"slices"
)

// Outcome is what is known of the work of a call.
type Outcome string

// The outcomes of a call.
const (
	Applied     Outcome = "applied"      // it answered success, whatever failed then
	Failed      Outcome = "failed"       // it answered that it failed
	NotSent     Outcome = "not_sent"     // it never left: nothing was done, and it can be made again
	SentUnknown Outcome = "sent_unknown" // it left, and nobody knows whether its work was done
	Undone      Outcome = "undone"       // it was applied, and has been taken back
)

// outcomes in the order of what they say of a call that was made more than once: one success is enough, and what may have
// been done is not undone by a later refusal.
var outcomes = []Outcome{Undone, Applied, SentUnknown, Failed, NotSent, ""}

// Outcomes are all outcomes, those first that say more of a call that was made more than once.
func Outcomes() []Outcome { return outcomes[: len(outcomes)-1 : len(outcomes)-1] }

// Combined is the outcome of a call that was made again: a of what it came to before, b of the last attempt. "": there was none.
func Combined(a, b Outcome) Outcome {
	return outcomes[min(slices.Index(outcomes, a), slices.Index(outcomes, b))]
}

// OutcomeOf is the outcome of a call of a function that writes, from the error that it ended with (nil: none): the one
// that the error has; else SentUnknown if the call broke off or an HTTP service answered with a status of 500 and over.
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
	return f.Code.row().outcome
}

// Error is a coded error. The zero value of every field but Code and Message means "not known" or "does not apply".
type Error struct {
	Code    Code
	Message string // one sentence or two: what is wrong, and the remedy; no trailing line break

	// At is a JSON Pointer (RFC 6901) to the place in the request, "" where the whole request or none is meant. A lower
	// room gives it relative to the value it was handed; the room above puts its own place before it (see Under).
	At string

	// Line and Column, from 1, of the place in a text (a chain file, a configuration, a recording); 0 when unknown.
	// Columns count characters.
	Line, Column int

	// Source is the one-line text in which Offset, a byte offset, marks the fault, for a caret; "" when there is none.
	Source string
	Offset int

	Available []string // the keys, names or values that would have been accepted there
	Nearest   []string // of those, the nearest to what was written, best first

	// Status and Body are what a failed call answered (an HTTP status and its body as JSON, an MCP error's content).
	Status int
	Body   []byte

	// Outcome is what is known of the work of the call that failed; "" if the function itself said that it failed, and of
	// reads.
	Outcome Outcome

	Err error // the cause, for errors.Is and errors.As; never shown to a caller by itself
}

// New makes a coded error with a formatted message.
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

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Under returns a copy of e whose place is put below the JSON Pointer prefix.
func (e *Error) Under(prefix string) *Error {
	c := *e
	c.At = prefix + e.At
	return &c
}

// ErrWaiting is the cause (Err) of a fault for a call that was never begun, as it waited for its turn among others until its time
// was over. Its message says so, and tells nothing of what was to be called.
var ErrWaiting = errors.New("it waited for its turn")

// As returns the coded error inside err, and whether there is one.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// CodeOf is the code of err: that of the coded error inside it, Internal for any other error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := As(err); ok {
		return e.Code
	}
	return Internal
}

// Unsent gives a coded error that has no outcome the outcome not_sent: the call was refused before anything of it left.
func Unsent(err error) error {
	f, coded := As(err)
	if !coded || f == nil || f.Outcome != "" {
		return err
	}
	own := *f
	own.Outcome = NotSent
	return &own
}
