// Package fault holds what every room of onecall answers when something is wrong: one closed list of codes, each with
// its exit status, its HTTP status and whether a retry makes sense, and one error type that names the place and the
// remedy. It knows nothing of references, steps, budgets or chains.
package fault

import (
	"errors"
	"fmt"
)

// Code is one word of the closed list below. Programs and tests look at codes, never at messages. A released code is
// not renamed.
type Code string

// The closed list. Where a code can be both a compile fault and a run-time error, it means the same in both.
const (
	BadJSON          Code = "bad_json"          // not JSON: syntax, encoding, depth, duplicate keys
	BadRequest       Code = "bad_request"       // JSON, but a value or a combination of fields that is not accepted
	Compile          Code = "compile"           // the chain has faults; nothing ran
	UnknownField     Code = "unknown_field"     // a field that the contract or the configuration does not know
	UnknownFunction  Code = "unknown_function"  // a name that resolves to no function, or to several, in the caller's view
	BadArguments     Code = "bad_arguments"     // arguments that do not fit the function's input schema
	BadReference     Code = "bad_reference"     // a reference that is malformed, or points forward or nowhere
	ReferenceMissing Code = "reference_missing" // a well-formed reference that finds nothing at run time
	BadExpression    Code = "bad_expression"    // an expression that does not compile, fails, or passes its bounds
	LimitExceeded    Code = "limit_exceeded"    // a limit of the server or of the chain's budget is passed
	BudgetTooSmall   Code = "budget_too_small"  // the token budget is below the least that an answer needs
	NotSupported     Code = "not_supported"     // part of the contract that this version does not carry out
	FunctionFailed   Code = "function_failed"   // the function said that it failed
	Timeout          Code = "timeout"           // a deadline passed; the call was cancelled
	Cancelled        Code = "cancelled"         // the client cancelled
	Unavailable      Code = "unavailable"       // the source could not be reached
	NotRecorded      Code = "not_recorded"      // a replay was asked for a call that is not in the recording
	TokenExpired     Code = "token_expired"     // the continuation token is not live for this caller
	BadMode          Code = "bad_mode"          // an unknown fetch mode, or one that does not fit the result
	BadPage          Code = "bad_page"          // a page or page size that is not acceptable
	Denied           Code = "denied"            // the caller, the configuration or the host rules forbid it
	ApprovalRequired Code = "approval_required" // the plan must be approved before it runs
	ResumeConflict   Code = "resume_conflict"   // a resume would repeat or change a write that was applied
	Busy             Code = "busy"              // too much at once; try again later
	Internal         Code = "internal"          // a defect of onecall or of a function (a panic, an invalid result)
)

// properties of a code: the exit status of the command line, the HTTP status where an answer is one, and whether the
// same request may succeed when it is simply sent again.
type properties struct {
	exit, http int
	retryable  bool
}

var table = map[Code]properties{
	BadJSON:          {3, 400, false},
	BadRequest:       {2, 400, false},
	Compile:          {3, 422, false},
	UnknownField:     {3, 422, false},
	UnknownFunction:  {3, 404, false},
	BadArguments:     {1, 422, false},
	BadReference:     {3, 422, false},
	ReferenceMissing: {1, 422, false},
	BadExpression:    {1, 422, false},
	LimitExceeded:    {1, 413, false},
	BudgetTooSmall:   {3, 422, false},
	NotSupported:     {3, 501, false},
	FunctionFailed:   {1, 502, false},
	Timeout:          {1, 504, true},
	Cancelled:        {130, 499, true},
	Unavailable:      {5, 503, true},
	NotRecorded:      {1, 404, false},
	TokenExpired:     {1, 410, false},
	BadMode:          {2, 400, false},
	BadPage:          {2, 400, false},
	Denied:           {1, 403, false},
	ApprovalRequired: {1, 403, false},
	ResumeConflict:   {1, 409, false},
	Busy:             {1, 429, true},
	Internal:         {1, 500, false},
}

// Codes returns the closed list, in the order of its definition.
func Codes() []Code {
	return []Code{BadJSON, BadRequest, Compile, UnknownField, UnknownFunction, BadArguments, BadReference,
		ReferenceMissing, BadExpression, LimitExceeded, BudgetTooSmall, NotSupported, FunctionFailed, Timeout,
		Cancelled, Unavailable, NotRecorded, TokenExpired, BadMode, BadPage, Denied, ApprovalRequired,
		ResumeConflict, Busy, Internal}
}

// Exit is the command line's exit status for an answer with this code; 1 for a code that is not in the list.
func (c Code) Exit() int {
	if p, ok := table[c]; ok {
		return p.exit
	}
	return 1
}

// HTTP is the status of an HTTP answer with this code (on MCP an error is a tool result instead); 500 for a code that
// is not in the list.
func (c Code) HTTP() int {
	if p, ok := table[c]; ok {
		return p.http
	}
	return 500
}

// Retryable tells whether the same request, sent again unchanged, may succeed.
func (c Code) Retryable() bool { return table[c].retryable }

// Outcome is what is known of the work of a call.
type Outcome string

// The outcomes of a call.
const (
	Applied     Outcome = "applied"      // it answered success, whatever failed then
	Failed      Outcome = "failed"       // it answered that it failed
	NotSent     Outcome = "not_sent"     // it never left: nothing was done, and it can be made again
	SentUnknown Outcome = "sent_unknown" // it left, and nobody knows whether its work was done
)

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
	switch f.Code {
	case Timeout, Cancelled, Unavailable, Internal:
		return SentUnknown
	case NotRecorded:
		return NotSent
	}
	return Failed
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
