package ledger

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

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

// TakeDecided takes the run that waits with this proof; elsewhere: the run that waits, or was decided about elsewhere. If the request is a
// call, its text must be the chain of the run.
func (l *Ledger) TakeDecided(ctx context.Context, run, proof string, elsewhere, isCall bool, text string) (*journal.Past, *fault.Error) {
	if l.Journal == nil {
		return nil, NotResumable("runs are not recorded here: send the request again without its state")
	}
	past, f := l.Take(ctx, run, false)
	switch {
	case f != nil:
		return nil, f
	case elsewhere && !slices.Contains([]journal.Status{journal.Waiting, journal.MayContinue, journal.Failed}, past.Row.Status):
		f = NotResumable("this run waits for no decision any more: send the request again without its state")
	case !elsewhere && (past.Waiting == nil || !hmac.Equal([]byte(proofOf(l.Journal, past)), []byte(proof))):
		f = fault.New(fault.Denied, "the waiting calls have changed since this decision: send the request again without its state")
	case isCall && text != string(past.Chain):
		f = fault.New(fault.Denied, "this decision is about a call with other arguments: send the request again without its state")
	default:
		return past, nil
	}
	l.Release()
	return nil, f
}
