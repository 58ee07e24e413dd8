package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// maxBy bounds the name of who decided, in characters.
const maxBy = 60

// approvePrefix begins each approve token.
const approvePrefix = "oca_"

// approveTokenOf returns the token that approves exactly the calls that the run waits for.
func approveTokenOf(j *journal.Journal, past *journal.Past) string {
	return approvePrefix + base64.RawURLEncoding.EncodeToString(waitingMAC(j, "approve", past))
}

// ApprovalName identifies exactly one call: changing one byte gives another name. undo is the call that would undo it.
func (l *Ledger) ApprovalName(c *journal.Call, undo []byte) string {
	mac := l.Journal.MAC([]byte("approval"), []byte(c.Function), c.Args, undo, []byte(strconv.Itoa(c.Ordinal())))
	return base64.RawURLEncoding.EncodeToString(mac)
}

// Names returns the names of calls.
func Names(calls []facts.WaitingCall) []string {
	list := make([]string, len(calls))
	for i := range calls {
		list[i] = calls[i].Name
	}
	return list
}

// Wait records that the run waits for the approval of these calls.
func (l *Ledger) Wait(calls []facts.WaitingCall) {
	l.Waiting = calls
	l.Record.Append(journal.Event{Kind: journal.Waits, Approvals: Names(calls), Args: facts.CallsJSON(calls)})
}

// Settle records that a person has approved or denied these calls.
func (l *Ledger) Settle(calls []facts.WaitingCall, yes bool) {
	kind := journal.Denied
	if yes {
		kind = journal.Approved
	}
	l.Record.Append(journal.Event{Kind: kind, Approvals: Names(calls)})
}

// applyApproval checks an approve token that was sent with a resume, and records the approval.
func (l *Ledger) applyApproval(record *journal.Run) *fault.Error {
	past := record.Past()
	switch {
	case l.ByPerson:
		return fault.New(fault.Denied, "only a person can approve this run, with onecall approve; approve in a request cannot").Under("/approve")
	case past.Waiting == nil || !hmac.Equal([]byte(approveTokenOf(l.Journal, past)), []byte(l.Resumption.Approve)):
		return fault.New(fault.Denied,
			"the waiting calls have changed since this approve was given: resume the run without approve to see them").Under("/approve")
	}
	record.Append(journal.Event{Kind: journal.Approved, Approvals: past.Waiting.Approvals})
	return nil
}

// Stored returns the calls that a run waits for, as they are stored.
func Stored(past *journal.Past) ([]gjson.Result, error) {
	if past.Row.Status == journal.MayContinue {
		return nil, approvedFault(past)
	}
	if past.Waiting == nil || past.Row.Status != journal.Waiting {
		return nil, fault.New(fault.BadRequest, "the run does not wait for approval")
	}
	return gjson.ParseBytes(past.Waiting.Args).Array(), nil
}

// approvedFault is the fault for a decision about a run that is approved already.
func approvedFault(past *journal.Past) *fault.Error {
	f := fault.New(fault.BadRequest, "the run is approved already: a resume makes the calls")
	for i := range slices.Backward(past.Events) {
		e := &past.Events[i]
		if e.Kind != journal.Approved {
			continue
		}
		by := ""
		if e.Message != "" {
			by = "by " + e.Message + " "
		}
		f.Message = fmt.Sprintf("the run was approved %sat %s: a resume makes the calls", by, time.UnixMicro(e.At).UTC().Format(time.RFC3339))
		break
	}
	return f
}

// Settlement is the decision of an operator about the calls that a run waits for.
type Settlement struct {
	Kind   journal.Kind // Approved or Denied
	By     string       // who decides; "": it is not known
	Status journal.Status
	Code   fault.Code
}

// DigestOf identifies a list of waiting calls. It has 128 bits, so that an agent, which chooses the calls, cannot find two lists with the
// same digest.
func DigestOf(calls []gjson.Result) string {
	h := sha256.New()
	for i := range calls {
		h.Write([]byte(calls[i].Raw + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// RecordDecision records a decision about the calls that a run waits for, and ends the run again.
func RecordDecision(ctx context.Context, j *journal.Journal, run, digest string, s *Settlement) ([]gjson.Result, error) {
	past, err := j.Acquire(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	calls, err := Stored(past)
	if err == nil && digest != "" && digest != DigestOf(calls) {
		err = fault.New(fault.ResumeConflict, "the waiting calls have changed: look at them again")
	}
	if err != nil {
		j.Release(past)
		return nil, err
	}
	r := j.Resume(past, nil)
	r.Append(journal.Event{Kind: s.Kind, Approvals: past.Waiting.Approvals, Message: fault.ClipRunes(s.By, maxBy)})
	return calls, r.EndUnfinished(s.Status, s.Code, "")
}

// Redacted returns arguments of a function for people, with digests in place of secrets. If the function is not available, nothing is known
// of its secrets, and args are returned as they are.
func (l *Ledger) Redacted(functions *steps.Registry, function string, args []byte) []byte {
	entry, err := functions.Resolve(function)
	if err != nil {
		return args
	}
	return entry.Redacted(args, func(value []byte) []byte {
		w := &rawjson.Writer{B: []byte{'{'}}
		w.Text("secret", hex.EncodeToString(l.Journal.MAC([]byte("secret"), value)[:8]))
		w.Close('}')
		return w.B
	})
}
