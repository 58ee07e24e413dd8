package facts

import (
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Run is what became of a run.
type Run struct {
	Steps        []Step
	Returned     bool // the chain says what it returns; else it is the result of the last step
	Last         Last
	Whole        int   // the step whose whole result is that of the chain, by the plan; -1: there is none
	Compared     bool  // that step is a read, whose result is compared with an earlier one
	Cached       int64 // calls that the call cache answered
	Projected    Projected
	HTTPStatus   int  // the HTTP status that the last step's function reported; 0: none
	Unrepeatable bool // a call was sent that is not safe to repeat
	Waiting      []WaitingCall
	Writes       Writes
	Warnings     []*fault.Error // of functions, in the order of the steps
}

// Projected is what calls did not ask for, because the plan does not refer to it.
type Projected struct {
	Calls   int64 // the calls that asked only for some members of their results
	Members int64 // the members that they did not ask for, as far as they are known
}

// Calls returns the number of calls of functions.
func (r *Run) Calls() (calls int64) {
	for i := range r.Steps {
		calls += r.Steps[i].Calls
	}
	return calls
}

// Last is what the plan says about the result of the last step.
type Last struct {
	Heavy   string // the Heavy of its function, if the answer's result is what that returns; else ""
	Writes  bool   // the answer's result is that of a function that is declared as writing, and sets no Heavy
	Deletes bool
	ForEach bool
}

// Cause is why a run, or a request, failed.
type Cause struct {
	Err             *fault.Error // nil: it did not fail
	Step            int          // the number of the step that Err is about; -1: none
	Index           int          // the element of a forEach that Err is about; -1: none
	Failed          *steps.Entry // the function that Err is about; nil: none
	More            []Element    // failed elements of that step; unless onError is continue, without Index
	Outcome         fault.Outcome
	Unstarted       []Interval // elements of that step that never started, because of UnstartedReason
	UnstartedReason string
}

// NoStep is the cause of a failure that no step has; err nil: of none.
func NoStep(err *fault.Error) Cause { return Cause{Err: err, Step: -1, Index: -1} }

// Writes sums up what a run has written.
type Writes interface {
	// Summary returns the entries in the order of the steps. It may be called often.
	Summary() []*Write
}

// Write is what calls of one step have written, with one outcome.
type Write struct {
	At             string // the place of a recorded call that the chain does not make; "": see the other fields
	Step           int    // the number of the step of the outermost chain
	Prefix, Suffix string // the path of the step around the elements: "3", ".1"
	Fn             string // "": an inline chain in which nothing began
	Outcome        fault.Outcome
	Inline         bool
	Elements       []Interval
	Calls          int
}
