package chain

import (
	"context"
	"errors"
	"slices"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Question asks for the approval that a run waits for. A front end passes it to its client, which asks its user and then sends the
// request again with a Decision.
type Question struct {
	Run   string
	Proof string // proves that the run waits for exactly these calls; it cannot be forged
	Calls []ApprovalCall
}

// Decision is the answer to a Question. The client sends it with the request that the question answered; the run continues with the
// earlier arguments.
type Decision struct {
	Run, Proof string // as in the question
	Yes        bool   // the calls may be made, each once; else they are denied
	Undecided  bool   // no decision was made: the run keeps waiting; Yes is ignored
	// Elsewhere: a person decides in another place (Decide), and the run continues with what is recorded, as a resume does. Proof, Yes and
	// Undecided are ignored.
	Elsewhere bool
}

// AwaitDecision waits until a run of a caller (nil: the zero Caller) waits for approval no more, because somebody decided elsewhere. It
// returns false if ctx ends first, or if the caller has no such run.
func (e *Engine) AwaitDecision(ctx context.Context, run string, caller *Caller) bool {
	j := e.o.Journal
	if j == nil {
		return false
	}
	if caller == nil {
		caller = &Caller{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, changed := j.Subscribe(ctx), journal.Change{Run: run}
	for open := true; open; changed, open = <-changes {
		if changed.Run != run && changed.Run != "" {
			continue
		}
		row, err := j.ReadRow(ctx, run, caller.ID, e.o.Scope)
		if err != nil {
			return false
		}
		if row.Status != journal.Waiting && row.Status != journal.Running { // a run is running while a decision is recorded
			return true
		}
	}
	return false
}

// loadDecided takes the run that a decision is about, and returns its chain. The decision applies when the run reaches the same calls
// again; about other calls the client is asked again.
func (s *request) loadDecided(ctx context.Context) (chain []byte, f *fault.Error) {
	d, single := s.decision, ""
	if s.single != nil {
		single = s.single.Text(s.o.MaxRequestBytes)
	}
	past, f := s.ledger.TakeDecided(ctx, d.Run, d.Proof, d.Elsewhere, s.single != nil, single)
	if f != nil {
		return nil, f
	}
	waits := past.Waiting
	s.askApproval = func(_ context.Context, calls []facts.WaitingCall) (bool, error) {
		if d.Undecided || d.Elsewhere || !slices.Equal(ledger.Names(calls), waits.Approvals) {
			return false, errUndecided
		}
		return d.Yes, nil
	}
	return past.Chain, nil
}

var errUndecided = errors.New("there is no decision yet")
