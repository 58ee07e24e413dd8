// Package facts has what the stages of a request tell each other about a run: plain data, and how a fact is written (a path, a call that
// waits). Two small interfaces, Recorded and Writes, lead back to what the ledger knows.
package facts

import (
	"cmp"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// The statuses of a step, and the reasons why a step was skipped.
const (
	StatusOK      = "ok"
	StatusFailed  = "failed"
	StatusSkipped = "skipped"
	StatusReused  = "reused" // only in answers: the step is ok, and all its calls came from the journal

	ReasonWhen       = "when"       // its condition was false; its result is null
	ReasonDependency = "dependency" // a step that it refers to has no result, because that or an earlier one failed or was skipped
	ReasonStopped    = "stopped"    // an earlier failure stopped the chain
	ReasonBudget     = "budget"     // maxCalls or maxDurationMs was used up
	ReasonCancelled  = "cancelled"  // the client cancelled
)

// Planned is what a plan says about a step.
type Planned struct {
	Number int
	ID     string       // "": none
	At     string       // its JSON Pointer
	Short  string       // where the step was written in the short form: what follows At in the pointer of its function; else ""
	Fn     *steps.Entry // the function that it calls; nil: none
	Saved  *steps.Entry // the saved chain that it calls; nil: none
	Inner  int          // the number of steps of its inline or saved chain; 0: none
	IsExpr bool         // it evaluates an expression
}

// FnAt returns the JSON Pointer of the function's name.
func (p *Planned) FnAt() string {
	if p.Short == "" {
		return p.At + "/fn"
	}
	return p.At + p.Short
}

// ArgsAt returns the JSON Pointer of the arguments. It is small enough to be inlined, and then needs no allocation.
func (p *Planned) ArgsAt() string {
	if p.Short == "" {
		return p.At + "/args"
	}
	return p.At + p.Short
}

// Callee returns the function or the saved chain that the step names; nil: it has an expression or a written inline chain, or the name was
// not found.
func (p *Planned) Callee() *steps.Entry { return cmp.Or(p.Fn, p.Saved) }

// Name returns the canonical name of the step's function or saved chain, "expr" for an expression and "" for an inline chain.
func (p *Planned) Name() string {
	switch {
	case p.Callee() != nil:
		return p.Callee().Spec().Name
	case p.IsExpr:
		return "expr"
	}
	return ""
}

// Step is what became of one step.
type Step struct {
	*Planned
	Status, Reason  string
	Cause           int           // with ReasonDependency: the number of the step that failed, or that calls or time did not reach
	Raw             []byte        // the result after select; nil: none. A failed forEach keeps the elements that succeeded
	Err             *fault.Error  // nil: it did not fail
	Failed          *steps.Entry  // the function that failed, which in an inline chain is not the step's own
	Index           int           // the element of a forEach that failed first, or for which this ran; -1: none
	Outcome         fault.Outcome // the outcome of the last call that writes; "": there was none
	FailedElements  []Element     // the elements that failed; unless onError is continue, without the first
	Unstarted       []Interval    // the elements that never started, because of UnstartedReason
	UnstartedReason string
	Count           int  // elements of a forEach; -1: no forEach
	Defaulted       int  // how many failures orElse replaced: of a forEach, those of its elements; else at most 1
	Kept            int  // in a rehearsal: the elements of a forEach whose calls were all taken from the journal
	Truncated       bool // a call reported that its result is incomplete
	Calls           int64
	Reused          int64     // calls that were taken from the journal
	Recorded        Recorded  // the last call that the journal has; nil: none
	LastCall        time.Time // when the last call of this round ended, even before a resume; zero: it made none
	Pending         bool      // in a rehearsal: the step has calls that were not made yet
	Took            time.Duration
	Args            []byte // the resolved arguments, without forEach; only if they were asked for, or of a function that destroys
}

// Recorded is a call that the journal has.
type Recorded interface {
	RecordDefault() // records that orElse replaced the failure of the call
}

// ReportedStatus is the status that callers see.
func (s *Step) ReportedStatus() string {
	if s.Status == StatusOK && s.Calls == 0 && s.Reused > 0 {
		return StatusReused
	}
	return s.Status
}

// Element is an element of a forEach that failed.
type Element struct {
	Index   int
	Err     *fault.Error
	Outcome fault.Outcome
	Fn      *steps.Entry // the function that failed
}

// Interval is a range of elements, including both ends.
type Interval struct{ First, Last int }

// AppendInterval adds an Interval that begins at or after the start of the last one, and merges the two if there is no gap between them.
func AppendInterval(list []Interval, s Interval) []Interval {
	if n := len(list); n > 0 && s.First <= list[n-1].Last+1 {
		list[n-1].Last = max(list[n-1].Last, s.Last)
		return list
	}
	return append(list, s)
}
