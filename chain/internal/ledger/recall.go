package ledger

import (
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Verdict is what is done about a call that a run is about to make.
type Verdict int

// The verdicts.
const (
	Make     Verdict = iota // the call is made
	MakeNew                 // the call is made, if the chain still contains every write that the run has made
	TryAgain                // as MakeNew: the run was suspended between two attempts at this call
	Reuse                   // what the journal has of it stands for the call
	Sibling                 // in a rehearsal: what another element of the step has read stands for the call
	Unknown                 // it is not known whether the call was made
)

// Look prepares a call and says what is done about it, by what the journal knows of an earlier attempt (call.Previous). repeatable: it is
// safe to repeat; retries is how often it may be tried again. sibling is the call of the verdict Sibling.
func (l *Ledger) Look(call *journal.Call, repeatable bool, retries int) (d Verdict, sibling *journal.PastCall) {
	l.Record.Prepare(call)
	if l.Record.Past() == nil {
		return Make, nil
	}
	previous, reads := call.Previous(), call.Effect == ""
	switch {
	case previous != nil && previous.Defaulted && l.Record.WroteAfter(previous):
		return Reuse, nil // later writes may depend on the value of orElse
	case reads:
		if previous != nil && previous.Code == "" && previous.Result != nil && l.mayReuse(previous) {
			return Reuse, nil
		}
		if sibling := l.sibling(call); sibling != nil {
			return Sibling, sibling
		}
	case previous == nil: // a new call
	case previous.UndoUnknown:
		return Unknown, nil
	case previous.Outcome == fault.Applied && (!call.Renews || l.Rehearsal): // a rehearsal takes it as renewed
		return Reuse, nil
	case previous.Outcome == fault.SentUnknown && !repeatable && !previous.KeyHolds() && previous.Task() == "": // it must not be done twice
		return Unknown, nil
	}
	awaitsRetry := previous != nil && l.Record.WasSuspended() && previous.Ended > 0 && IsTransient(previous.Code) && previous.Attempt < retries
	switch {
	case awaitsRetry:
		return TryAgain, nil
	case reads:
		return Make, nil
	}
	return MakeNew, nil
}

// mayReuse reports whether the caller may have the result of an earlier read, which its rights decided if they are recorded with it.
func (l *Ledger) mayReuse(earlier *journal.PastCall) bool {
	return earlier.Scope == "" || l.Operator || l.Rights != nil && l.Rights.CoversText(earlier.Scope)
}

// IsTransient reports whether another attempt may succeed after a failure with this code.
func IsTransient(code fault.Code) bool {
	return code == fault.FunctionFailed || code.Retryable()
}

// sibling returns an equal call by which another element of the same step has read; nil: none. Which of two parallel elements made
// such a call first is chance, so a rehearsal accepts the result of either.
func (l *Ledger) sibling(c *journal.Call) *journal.PastCall {
	if !l.Rehearsal {
		return nil
	}
	for _, earlier := range l.Record.EqualCalls(c) {
		if earlier.Code == "" && earlier.Result != nil && sameStep(earlier.StepPath, c.StepPath) {
			return earlier
		}
	}
	return nil
}

// sameStep reports whether two paths are of the same step, whatever their elements.
func sameStep(a, b string) bool {
	first, second := facts.ParsePath(a), facts.ParsePath(b)
	if len(first) != len(second) {
		return false
	}
	for i := 0; i < len(first); i += 2 {
		if first[i] != second[i] {
			return false
		}
	}
	return true
}
