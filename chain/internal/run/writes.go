package run

import (
	"errors"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// logWrite logs the outcome of a call and its retries. An outcome of "" means that the call was not made: in a forEach it is logged as
// not_sent, elsewhere it is not logged.
func (s *stepRun) logWrite(l *ledger.Ledger, p *plan.Step, outcome fault.Outcome) {
	if outcome == "" {
		if p.ForEach == nil {
			return
		}
		outcome = fault.NotSent
	}
	s.Outcome = outcome
	l.LogWrite(s.frame, &p.Planned, s.Index, p.Until != nil, outcome)
}

// logUnstarted logs the elements that never started.
func (s *stepRun) logUnstarted(l *ledger.Ledger, p *plan.Step) {
	if p.Effect == steps.Read {
		return
	}
	l.LogUnstarted(s.frame, &p.Planned, s.Unstarted)
}

// outcomeOfCall returns the outcome of a call; "": it was not made.
func outcomeOfCall(f *fault.Error) fault.Outcome {
	switch {
	case f == nil:
		return fault.Applied
	case errors.Is(f, errNoCalls):
		return ""
	}
	return fault.OutcomeOf(f)
}
