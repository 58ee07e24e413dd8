package ledger

import (
	"cmp"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// ByHand says how a person decides about a run whose client can neither ask nor show the calls.
func (l *Ledger) ByHand(run string) string {
	if l.Console == "" || l.Journal == nil {
		return "with onecall approve or in onecall console"
	}
	return "with onecall approve or in the console, " + l.Console + "runs/" + run + "/approve"
}

// approvePrefix begins each approve token.
const approvePrefix = "oca_"

// approveTokenOf returns the token that approves exactly the calls that the run waits for.
func approveTokenOf(j *journal.Journal, past *journal.Past) string {
	return approvePrefix + base64.RawURLEncoding.EncodeToString(waitingMAC(j, "approve", past))
}

// ApprovalName identifies exactly one call: changing one byte gives another name. undo is the call that would undo it, and flows why flow
// rules ask: who approves the call has seen both. The name begins with what equal calls of all runs share, compared as a resume compares
// them (journal.CallOf).
func (l *Ledger) ApprovalName(c *journal.Call, undo []byte, flows []string) string {
	call := l.Journal.MAC([]byte("approval of"), []byte(c.Function), canonical(c.Args))
	texts := [][]byte{[]byte("approval"), []byte(c.Function), c.Args, undo, []byte(strconv.Itoa(c.Ordinal()))}
	for _, flow := range flows {
		texts = append(texts, []byte(flow))
	}
	mac := l.Journal.MAC(texts...)
	return base64.RawURLEncoding.EncodeToString(call) + "." + base64.RawURLEncoding.EncodeToString(mac)
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
func (l *Ledger) Wait(ctx context.Context, calls []facts.WaitingCall) {
	l.Waiting = calls
	l.appendWaits(ctx, calls)
}

func (l *Ledger) appendWaits(ctx context.Context, calls []facts.WaitingCall) {
	l.Record.Append(journal.Event{Kind: journal.Waits, Scope: l.client(ctx), Approvals: Names(calls), Args: facts.CallsJSON(calls)})
}

// Approve records that the user of the run's caller has approved these calls.
func (l *Ledger) Approve(calls []facts.WaitingCall) {
	l.Record.Decide(journal.Approved, Names(calls), "", "")
}

// Deny records that the user of the run's caller has denied these calls, or has left the question about them without a word (dismissed).
// Who asked them may know their name; else the caller's stands for it.
func (l *Ledger) Deny(ctx context.Context, calls []facts.WaitingCall, dismissed bool) {
	l.appendWaits(ctx, calls) // see decided
	by := cmp.Or(l.User, l.Caller)
	l.Record.Decide(journal.Denied, Names(calls), by, "")
	if !dismissed {
		_ = l.Record.Remember(l.person(ctx), journal.Denied, Names(calls), by, "") // a journal that fails ends the run
	}
}

// NeedsPerson reports whether only a person can approve the calls that wait: the configuration says so, or a flow rule asks about one.
func (l *Ledger) NeedsPerson() bool {
	return l.ByPerson || slices.ContainsFunc(l.Waiting, func(c facts.WaitingCall) bool { return len(c.Flows) > 0 })
}

// asksPerson reports whether a flow rule asks about one of the calls of a Waits event.
func asksPerson(calls []byte) bool {
	return slices.ContainsFunc(gjson.ParseBytes(calls).Array(), func(call gjson.Result) bool { return call.Get("flows").Exists() })
}

// applyApproval checks an approve token that was sent with a resume, and records the approval.
func (l *Ledger) applyApproval(record *journal.Run) *fault.Error {
	past := record.Past()
	if f := l.checkApprove(past, l.Resumption.Approve); f != nil {
		return f
	}
	record.Append(journal.Event{Kind: journal.Approved, Approvals: past.Waiting.Approvals})
	return nil
}

// checkApprove checks a token with which a caller decides about the calls that its run waits for.
func (l *Ledger) checkApprove(past *journal.Past, token string) *fault.Error {
	switch {
	case l.ByPerson, past.Waiting != nil && asksPerson(past.Waiting.Args):
		return fault.New(fault.Denied, "only a person can approve this run, %s; approve in a request cannot", l.ByHand(past.Row.ID)).Under("/approve")
	case past.Waiting == nil || !hmac.Equal([]byte(approveTokenOf(l.Journal, past)), []byte(token)):
		return fault.New(fault.Denied,
			"the waiting calls have changed since this approve was given: resume the run without approve to see them").Under("/approve")
	}
	return nil
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
