package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// offer is a call that can be decided about.
type offer struct {
	name string // of its approval
	call gjson.Result
}

// Offered returns the calls that can be decided about, as they are stored: those that the run waits for or, if it waits for none, those
// that were denied, which have a member denied, and those that were approved and not made yet, which have a member approved.
func Offered(past *journal.Past) ([]gjson.Result, error) {
	list, err := offers(past)
	return callsOf(list), err
}

func offers(past *journal.Past) (list []offer, err error) {
	status := past.Row.Status
	switch {
	case status == journal.Waiting && past.Waiting != nil:
		for i, call := range gjson.ParseBytes(past.Waiting.Args).Array() {
			list = append(list, offer{past.Waiting.Approvals[i], call})
		}
		return list, nil
	case status == journal.Failed || status == journal.MayContinue:
		list = decided(past)
	}
	switch {
	case len(list) > 0:
		return list, nil
	case status == journal.MayContinue:
		return nil, approvedFault(past)
	}
	return nil, fault.New(fault.BadRequest, "the run does not wait for approval")
}

// decided returns the calls that were denied and not approved since, and those that were approved and not made since, each as it last
// waited.
func decided(past *journal.Past) (list []offer) {
	known := map[string]bool{}
	for i := range slices.Backward(past.Events) {
		e := &past.Events[i]
		if e.Kind != journal.Waits {
			continue
		}
		for at, call := range gjson.ParseBytes(e.Args).Array() {
			name := e.Approvals[at]
			denial := past.Denial(name)
			if denial == nil && !past.Approved(name) || known[name] {
				continue
			}
			known[name] = true
			w := &rawjson.Writer{B: []byte(strings.TrimSuffix(call.Raw, "}"))}
			if denial == nil {
				w.Bool("approved", true)
			} else {
				by, reason := denial.Decision()
				w.OpenMember("denied", '{')
				w.Text("at", timeOf(denial))
				w.Text("by", by)
				w.Text("reason", reason)
				w.Close('}')
			}
			w.Close('}')
			list = append(list, offer{name, gjson.ParseBytes(w.B)})
		}
	}
	slices.SortStableFunc(list, func(a, b offer) int {
		return slices.Compare(facts.ParsePath(a.call.Get("at").Str), facts.ParsePath(b.call.Get("at").Str))
	})
	return list
}

// timeOf returns when an event was recorded.
func timeOf(e *journal.Event) string { return time.UnixMicro(e.At).UTC().Format(time.RFC3339) }

func callsOf(list []offer) (calls []gjson.Result) {
	for i := range list {
		calls = append(calls, list[i].call)
	}
	return calls
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
		if who, _ := e.Decision(); who != "" {
			by = "by " + who + " "
		}
		f.Message = fmt.Sprintf("the run was approved %sat %s: a resume makes the calls", by, timeOf(e))
		break
	}
	return f
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

// Decide records a ruling about calls that Offered returns, and ends the run again. It returns the calls that still wait.
func Decide(ctx context.Context, j *journal.Journal, run string, d *Ruling) (waiting []gjson.Result, err error) {
	past, err := j.Acquire(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	parts, err := d.apply(ctx, past)
	if err != nil {
		j.Release(past)
		return nil, err
	}
	return d.record(j, past, parts, true)
}

const nothingDecided = "nothing was decided"

// DecideOwn is Decide for the caller, about a run of its own that waits. token is the approve of the answer that showed the calls: it gives
// no right that a resume with it does not give.
func (l *Ledger) DecideOwn(ctx context.Context, run, token string, d *Ruling) (waiting []gjson.Result, f *fault.Error) {
	past, f := l.takeOwn(ctx, run)
	if f != nil {
		return nil, f.Under("/run")
	}
	switch past.Row.Status {
	case journal.Waiting:
		f = l.checkApprove(past, token)
		if approves := len(d.Approve) > 0 || d.Rest == journal.Approved; f == nil && approves {
			f = l.checkDenied(ctx, past, past.Waiting.Approvals)
		}
	case journal.MayContinue:
		f = approvedFault(past)
	default: // what was denied, only an operator can approve
		f = fault.New(fault.BadRequest, "the run does not wait for approval")
	}
	if f != nil {
		l.Release()
		return nil, f
	}
	return l.recordOwn(ctx, past, d)
}

// recordOwn applies a ruling to a run of the caller that was taken, and records it. It returns the calls that still wait.
func (l *Ledger) recordOwn(ctx context.Context, past *journal.Past, d *Ruling) (waiting []gjson.Result, f *fault.Error) {
	parts, err := d.apply(ctx, past)
	if err != nil {
		l.Release()
		return nil, codedFault(err)
	}
	l.leased = nil
	waiting, err = d.record(l.Journal, past, parts, false)
	if err != nil {
		return nil, Fault(err, nothingDecided)
	}
	return waiting, nil
}

// codedFault returns why nothing was decided.
func codedFault(err error) *fault.Error {
	if coded, ok := fault.As(err); ok {
		return coded
	}
	return Fault(err, nothingDecided)
}

// record records a ruling that was applied to a run whose lease is held. byOperator: its caller cannot make it.
func (d *Ruling) record(j *journal.Journal, past *journal.Past, parts [3]part, byOperator bool) (waiting []gjson.Result, err error) {
	person, client := personOf(j, past), clientOf(past)
	r, was := j.Resume(past, nil), past.Row
	if err := d.remember(r, person, &parts, byOperator); err != nil {
		j.Release(past)
		return nil, err
	}
	for _, part := range parts[:2] {
		reason := d.Reason
		if part.kind == journal.Approved && len(parts[1].names) > 0 { // it says why the others were denied
			reason = ""
		}
		by := d.By
		if part.kind == journal.Approved && !byOperator { // a person's approval is told from the caller's by its name
			by = ""
		}
		if len(part.names) > 0 {
			r.Decide(part.kind, part.names, by, reason)
		}
	}
	left := parts[2]
	switch {
	case len(left.names) > 0:
		r.Append(journal.Event{Kind: journal.Waits, Scope: client, Approvals: left.names, Args: arrayOf(left.calls)})
		return left.calls, r.EndUnfinished(journal.Waiting, fault.ApprovalRequired, fmt.Sprintf("%d calls wait for approval", len(left.names)))
	case past.IsApproved():
		return nil, r.EndUnfinished(journal.MayContinue, "", "")
	case was.Status != journal.Waiting && was.Status != journal.MayContinue: // it has ended before, maybe for another reason
		return nil, r.EndUnfinished(was.Status, was.Code, "")
	}
	what := "1 call was denied"
	if n := len(parts[1].names); n != 1 {
		what = fmt.Sprintf("%d calls were denied", n)
	}
	message := deniedText(what, d.By, "", d.Reason)
	return nil, r.EndUnfinished(journal.Failed, fault.Denied, message)
}

func arrayOf(calls []gjson.Result) []byte {
	texts := make([]string, len(calls))
	for i := range calls {
		texts[i] = calls[i].Raw
	}
	return []byte("[" + strings.Join(texts, ",") + "]")
}

// deniedText returns what is said of calls that were denied, by whom, at which time and why, as far as it is known.
func deniedText(what, by, at, reason string) string {
	if by != "" {
		what += " by " + by
	}
	if at != "" {
		what += " at " + at
	}
	if reason != "" {
		what += ": " + reason
	}
	return what
}

// DeniedFault is the fault for a call that an earlier request would have made, and that was denied.
func DeniedFault(name string, denial *journal.Event) *fault.Error {
	by, reason := denial.Decision()
	f := fault.New(fault.Denied, "%s", deniedText(name+" was not sent, since it was denied", by, timeOf(denial), reason))
	f.Outcome = fault.NotSent
	return f
}
