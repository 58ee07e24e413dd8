package chain

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// approvalCollector collects the calls that need approval, in a rehearsal of what comes next.
type approvalCollector struct {
	mu    sync.Mutex
	calls []facts.WaitingCall
}

// MustApprove reports whether calls of a function need approval. A front end must not make such calls without the engine.
func (e *Engine) MustApprove(f *steps.Spec) bool { return plan.MustApprove(f, e.o.Approve) }

// awaitApproval waits until a call that needs approval is approved. A fault means that the call must not be made.
func (r *run) awaitApproval(ctx context.Context, p *plan.Step, scope *refs.Scope, s *stepRun) *fault.Error {
	if !p.MustApprove() {
		return nil
	}
	undo := undoShown(ctx, p, scope)
	name := r.approvalName(s.call, undo)
	if r.record.Approved(name) {
		s.call.Approval = name
		return nil
	}
	if r.rehearsal {
		if r.waiting != nil {
			r.waiting.add(p, s.call, undo, name)
		}
		return nil
	}
	defer timerOf(ctx).pause()() // the chain's time does not pass while a person decides
	r.approvalMu.Lock()
	defer r.approvalMu.Unlock()
	if r.record.Approved(name) { // another element of the step asked for all of them
		s.call.Approval = name
		return nil
	}
	switch {
	case r.approvalStopped.Load() && len(r.awaitingApproval) == 0: // a person has denied an earlier call
		return deniedFault(p)
	case r.approvalStopped.Load():
		return r.approvalRequired(p)
	}
	calls := r.collectWaiting(ctx, p, s.call, undo, name)
	if r.askApproval == nil {
		return r.stopForApproval(p, calls)
	}
	approved, err := r.askApproval(r.parent, calls)
	switch {
	case err != nil:
		return r.stopForApproval(p, calls)
	case !approved:
		r.record.Append(journal.Event{Kind: journal.Denied, Approvals: approvalNames(calls)})
		r.approvalStopped.Store(true)
		return deniedFault(p)
	}
	r.record.Append(journal.Event{Kind: journal.Approved, Approvals: approvalNames(calls)})
	s.call.Approval = name
	return nil
}

// approvalName identifies exactly this call: changing one byte gives another name.
func (r *run) approvalName(c *journal.Call, undo []byte) string {
	mac := r.o.Journal.MAC([]byte("approval"), []byte(c.Function), c.Args, undo, []byte(strconv.Itoa(c.Ordinal())))
	return base64.RawURLEncoding.EncodeToString(mac)
}

// undoShown returns the call that would undo a call, as far as it is known in advance; nil: there is none.
func undoShown(ctx context.Context, p *plan.Step, scope *refs.Scope) []byte {
	if p.Undo == nil {
		return nil
	}
	args, err := p.Undo.Args.ResolveButResult(ctx, nil, scope)
	if err != nil {
		return p.Undo.Text // the call will not be made: a reference is missing
	}
	return plan.UndoText(p.Undo.Fn.Spec().Name, args)
}

func (w *approvalCollector) add(p *plan.Step, c *journal.Call, undo []byte, name string) {
	call := facts.WaitingCall{StepPath: c.StepPath, ID: p.ID, Function: c.Function, Effect: p.Effect, Args: c.Args, Undo: undo, Name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

// collectWaiting returns the calls to approve together: this one, those of the other elements of its step, and those of later steps that
// depend only on ended steps.
func (r *run) collectWaiting(ctx context.Context, p *plan.Step, c *journal.Call, undo []byte, name string) []facts.WaitingCall {
	silent := r.silentCopy()
	silent.record, silent.waiting = r.record.Rehearse(), &approvalCollector{}
	defer silent.memory.End()
	silent.rehearse(ctx, r.plan)
	if !slices.ContainsFunc(silent.waiting.calls, func(call facts.WaitingCall) bool { return call.Name == name }) {
		silent.waiting.add(p, c, undo, name)
	}
	calls := silent.waiting.calls
	slices.SortStableFunc(calls, func(a, b facts.WaitingCall) int {
		return slices.Compare(facts.ParsePath(a.StepPath), facts.ParsePath(b.StepPath))
	})
	for i := range calls {
		calls[i].Args = r.redacted(calls[i].Function, calls[i].Args)
		if undo := gjson.ParseBytes(calls[i].Undo); undo.Get("args").IsObject() {
			function := undo.Get("fn").Str
			calls[i].Undo = plan.UndoText(function, r.redacted(function, []byte(undo.Get("args").Raw)))
		}
	}
	return calls
}

// redacted returns arguments of a function for people, with digests in place of secrets. If the function is not available, nothing is known
// of its secrets, and args are returned as they are.
func (r *run) redacted(function string, args []byte) []byte {
	entry, err := r.view.Resolve(function)
	if err != nil {
		return args
	}
	return entry.Redacted(args, func(value []byte) []byte {
		w := &rawjson.Writer{B: []byte{'{'}}
		w.Text("secret", hex.EncodeToString(r.o.Journal.MAC([]byte("secret"), value)[:8]))
		w.Close('}')
		return w.B
	})
}

func approvalNames(calls []facts.WaitingCall) []string {
	list := make([]string, len(calls))
	for i := range calls {
		list[i] = calls[i].Name
	}
	return list
}

// stopForApproval stops the run before the calls.
func (r *run) stopForApproval(p *plan.Step, calls []facts.WaitingCall) *fault.Error {
	r.approvalStopped.Store(true)
	r.awaitingApproval = calls
	r.record.Append(journal.Event{Kind: journal.Waits, Approvals: approvalNames(calls), Args: answer.CallsJSON(calls)})
	return r.approvalRequired(p)
}

// deniedFault is the fault for a call that a person has denied.
func deniedFault(p *plan.Step) *fault.Error {
	f := fault.New(fault.Denied, "%s was denied, and it was not sent", p.Name()).Under(p.At)
	f.Outcome = fault.NotSent
	return f
}

func (r *run) approvalRequired(p *plan.Step) *fault.Error {
	advice := "send resume with approve, or let onecall approve and onecall resume do it"
	if r.o.ApproveByPerson {
		advice = "a person approves them with onecall approve"
	}
	f := fault.New(fault.ApprovalRequired, "%d calls wait for approval; none of them was sent: %s", len(r.awaitingApproval),
		advice).Under(p.At)
	if len(r.awaitingApproval) == 1 {
		f.Message = r.awaitingApproval[0].Function + " waits for approval; it was not sent: " + advice
	}
	if !p.Approve {
		f.Message += fmt.Sprintf(". %s needs approval because its undo, %s, does", p.Name(), p.Undo.Fn.Spec().Name)
	}
	f.Outcome = fault.NotSent
	return f
}

// approvePrefix begins each approve token.
const approvePrefix = "oca_"

// approveTokenOf returns the token that approves exactly the calls that the run waits for.
func approveTokenOf(j *journal.Journal, past *journal.Past) string {
	return approvePrefix + base64.RawURLEncoding.EncodeToString(waitingMAC(j, "approve", past))
}

// applyApproval checks an approve token that was sent with a resume, and records the approval.
func (s *requestState) applyApproval(record *journal.Run) *fault.Error {
	past := record.Past()
	switch {
	case s.o.ApproveByPerson:
		return fault.New(fault.Denied, "only a person can approve this run, with onecall approve; approve in a request cannot").Under("/approve")
	case past.Waiting == nil || !hmac.Equal([]byte(approveTokenOf(s.o.Journal, past)), []byte(s.resumption.approve)):
		return fault.New(fault.Denied,
			"the waiting calls have changed since this approve was given: resume the run without approve to see them").Under("/approve")
	}
	record.Append(journal.Event{Kind: journal.Approved, Approvals: past.Waiting.Approvals})
	return nil
}

// Waiting returns the calls that a run waits for, in the form of ApprovalCall.JSON, for an operator. It fails with bad_request if the run
// does not wait for approval.
func Waiting(ctx context.Context, j *journal.Journal, run string) (calls []gjson.Result, err error) {
	past, err := j.Read(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	return storedCalls(past)
}

func storedCalls(past *journal.Past) ([]gjson.Result, error) {
	if past.Waiting == nil || past.Row.Status != journal.Waiting {
		return nil, fault.New(fault.BadRequest, "the run does not wait for approval")
	}
	return gjson.ParseBytes(past.Waiting.Args).Array(), nil
}

// DigestOf identifies a list of waiting calls.
func DigestOf(calls []gjson.Result) string {
	h := sha256.New()
	for i := range calls {
		h.Write([]byte(calls[i].Raw + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Approve approves the calls that a run waits for, for an operator, and returns them. It fails with resume_conflict if digest is not that
// of the calls (DigestOf), and with bad_request if none wait. An empty digest approves whichever calls wait.
func Approve(ctx context.Context, j *journal.Journal, run, digest string) ([]gjson.Result, error) {
	return decide(ctx, j, run, digest, journal.Approved, journal.Waiting, fault.ApprovalRequired)
}

// Deny denies the calls that a run waits for; otherwise it is like Approve.
func Deny(ctx context.Context, j *journal.Journal, run, digest string) ([]gjson.Result, error) {
	return decide(ctx, j, run, digest, journal.Denied, journal.Failed, fault.Denied)
}

// decide records an event of this kind for the calls that a run waits for, and ends the run again with status and code.
func decide(ctx context.Context, j *journal.Journal, run, digest string, kind journal.Kind, status journal.Status,
	code fault.Code) ([]gjson.Result, error) {
	past, err := j.Acquire(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	calls, err := storedCalls(past)
	if err == nil && digest != "" && digest != DigestOf(calls) {
		err = fault.New(fault.ResumeConflict, "the waiting calls have changed: look at them again")
	}
	if err != nil {
		j.Release(past)
		return nil, err
	}
	r := j.Resume(past, nil)
	r.Append(journal.Event{Kind: kind, Approvals: past.Waiting.Approvals})
	return calls, r.EndUnfinished(status, code, "")
}
