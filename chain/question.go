package chain

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Question is what a run waits with, for a front end whose client asks its user after the answer, and then sends the request again
// with a Decision.
type Question struct {
	Run   string
	Proof string // that the run waits with exactly these calls; nobody else can make it
	Calls []ApprovalCall
}

// Decision is what became of a Question. The request that it comes with is the one that was answered with the question: the run
// goes on with what it was sent then.
type Decision struct {
	Run, Proof string // of the question
	Yes        bool   // the calls may be made, each once; else they are denied
	Undecided  bool   // nobody has decided: the run goes on waiting, whatever Yes says
}

// questionOf is the question about the calls that a run waits with.
func questionOf(j *journal.Journal, past *journal.Past, calls []ApprovalCall) *Question {
	return &Question{Run: past.Row.ID, Proof: proofOf(j, past), Calls: calls}
}

func proofOf(j *journal.Journal, past *journal.Past) string {
	return base64.RawURLEncoding.EncodeToString(waitsMAC(j, "question", past))
}

// waitsMAC stands for a run and exactly the calls that it waits with. It is the same however often they are shown, until one of them is
// made or refused. No use of it is another's.
func waitsMAC(j *journal.Journal, use string, past *journal.Past) []byte {
	texts := [][]byte{[]byte(use), []byte(past.Row.ID), []byte(strconv.Itoa(past.Decided))}
	for _, name := range past.Waiting.Approvals {
		texts = append(texts, []byte(name))
	}
	return j.MAC(texts...)
}

var errUndecided = errors.New("nobody has decided")

// takeDecided takes up the run that a decision is about, and has it decide when the run comes to its question again: that is of
// the same calls, or they are asked about again.
func (s *exchange) takeDecided(ctx context.Context) (chain []byte, f *fault.Error) {
	d := s.decision
	if s.o.Journal == nil {
		return nil, notResumable("nothing is remembered here: send the request again without its state")
	}
	past, f := s.take(ctx, d.Run, false)
	if f != nil {
		return nil, f
	}
	waits := past.Waiting
	if waits == nil || !hmac.Equal([]byte(proofOf(s.o.Journal, past)), []byte(d.Proof)) {
		s.giveUp()
		return nil, fault.New(fault.Denied, "this decision is not about the calls which the run waits with now: send the request again without its state")
	}
	if s.single != nil && s.singleText() != string(past.Chain) {
		s.giveUp()
		return nil, fault.New(fault.Denied, "this decision is about a call with other arguments: send the request again without its state")
	}
	s.ask = func(_ context.Context, calls []ApprovalCall) (bool, error) {
		if d.Undecided || !slices.Equal(names(calls), waits.Approvals) {
			return false, errUndecided
		}
		return d.Yes, nil
	}
	return past.Chain, nil
}
