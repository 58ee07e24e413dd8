package chain

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
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
}

// questionOf returns the question about the calls that a run waits for.
func questionOf(j *journal.Journal, past *journal.Past, calls []facts.WaitingCall) *Question {
	return &Question{Run: past.Row.ID, Proof: proofOf(j, past), Calls: approvalCalls(calls)}
}

func proofOf(j *journal.Journal, past *journal.Past) string {
	return base64.RawURLEncoding.EncodeToString(waitingMAC(j, "question", past))
}

// waitingMAC identifies a run and exactly the calls that it waits for. It stays the same until one of them is made or denied. It differs
// for each use.
func waitingMAC(j *journal.Journal, use string, past *journal.Past) []byte {
	texts := [][]byte{[]byte(use), []byte(past.Row.ID), []byte(strconv.Itoa(past.DecisionCount))}
	for _, name := range past.Waiting.Approvals {
		texts = append(texts, []byte(name))
	}
	return j.MAC(texts...)
}

var errUndecided = errors.New("there is no decision yet")

// loadDecided takes the run that a decision is about. The decision applies when the run reaches the same calls again; about other calls the
// client is asked again.
func (s *requestState) loadDecided(ctx context.Context) (chain []byte, f *fault.Error) {
	d := s.decision
	if s.o.Journal == nil {
		return nil, notResumableFault("runs are not recorded here: send the request again without its state")
	}
	past, f := s.takeRun(ctx, d.Run, false)
	if f != nil {
		return nil, f
	}
	waits := past.Waiting
	if waits == nil || !hmac.Equal([]byte(proofOf(s.o.Journal, past)), []byte(d.Proof)) {
		s.releaseRun()
		return nil, fault.New(fault.Denied,
			"the waiting calls have changed since this decision: send the request again without its state")
	}
	if s.single != nil && s.single.Text(s.o.MaxRequestBytes) != string(past.Chain) {
		s.releaseRun()
		return nil, fault.New(fault.Denied, "this decision is about a call with other arguments: send the request again without its state")
	}
	s.askApproval = func(_ context.Context, calls []facts.WaitingCall) (bool, error) {
		if d.Undecided || !slices.Equal(approvalNames(calls), waits.Approvals) {
			return false, errUndecided
		}
		return d.Yes, nil
	}
	return past.Chain, nil
}
