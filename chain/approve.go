package chain

import (
	"cmp"
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

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// ApprovalCall is a call that waits for approval.
type ApprovalCall struct {
	Place    string // of its step, as writes name it: 3, 3[7], 3[7].1
	ID       string // of its step; "": it has none
	Function string
	Effect   steps.Effect
	Args     []byte // as they are sent, secrets as digests
	Undo     []byte // {"fn","args"} that takes it back, in which only $result is not filled in; nil: nothing does

	name string
}

// JSON is the call as answers show it, and as Waiting gives it.
func (c *ApprovalCall) JSON() []byte {
	w := &writer{}
	w.approvalCall(c)
	return w.b
}

// waiting collects the calls that wait for approval, in a rehearsal of what comes next.
type waiting struct {
	mu    sync.Mutex
	calls []ApprovalCall
}

// mustApprove reports whether calls of a step need approval.
func (s *exchange) mustApprove(p *plannedStep) bool {
	return s.o.mustApprove(p.fn.Spec()) || s.mustApproveUndo(p)
}

// mustApproveUndo reports whether they need it for the sake of their undo: of one that the step brings, as it could carry any call past
// approval. What the configuration takes back is the operator's word.
func (s *exchange) mustApproveUndo(p *plannedStep) bool {
	return p.undo != nil && p.undo.said && s.o.mustApprove(p.undo.fn.Spec())
}

func (o *Options) mustApprove(f *steps.Spec) bool {
	switch cmp.Or(f.Approve, o.Approve) {
	case steps.ApproveWrite:
		return f.Effect != steps.Read
	case steps.ApproveDestroy:
		return f.Effect == steps.Destroy
	}
	return false
}

// MustApprove reports whether calls of a function need approval: those that are made past the engine would get none.
func (e *Engine) MustApprove(f *steps.Spec) bool { return e.o.mustApprove(f) }

// asks reports whether any call of the plan needs approval.
func (s *exchange) asks(p *plan) bool {
	return slices.ContainsFunc(p.steps, func(step *plannedStep) bool {
		return step.inline != nil && s.asks(step.inline) || step.fn != nil && s.mustApprove(step)
	})
}

// approved waits at a call that needs approval, until somebody has approved it; a fault means that it may not be made.
func (r *run) approved(ctx context.Context, p *plannedStep, scope *refs.Scope, s *stepRun) *fault.Error {
	if !r.mustApprove(p) {
		return nil
	}
	undo := undoShown(ctx, p, scope)
	name := r.approvalName(s.call, undo)
	if r.record.Approved(name) {
		s.call.Approval = name
		return nil
	}
	if r.rehearsal {
		if r.waits != nil {
			r.waits.add(p, s.call, undo, name)
		}
		return nil
	}
	defer clockOf(ctx).pause()() // the time until somebody has answered, this question or one before it, is nobody's
	r.asking.Lock()
	defer r.asking.Unlock()
	if r.record.Approved(name) { // an element of the same step has asked for all
		s.call.Approval = name
		return nil
	}
	switch {
	case r.stopped.Load() && len(r.awaited) == 0: // it was refused for all
		return refused(p)
	case r.stopped.Load():
		return r.required(p)
	}
	calls := r.whatWaits(ctx, p, s.call, undo, name)
	if r.ask == nil {
		return r.stopForApproval(p, calls)
	}
	yes, err := r.ask(r.parent, calls)
	switch {
	case err != nil:
		return r.stopForApproval(p, calls)
	case !yes:
		r.record.Tell(journal.Event{Kind: journal.Denied, Approvals: names(calls)})
		r.stopped.Store(true)
		return refused(p)
	}
	r.record.Tell(journal.Event{Kind: journal.Approved, Approvals: names(calls)})
	s.call.Approval = name
	return nil
}

// approvalName names exactly this call: any change of a byte gives another name.
func (r *run) approvalName(c *journal.Call, undo []byte) string {
	mac := r.o.Journal.MAC([]byte("approval"), []byte(c.Function), c.Args, undo, []byte(strconv.Itoa(c.Ordinal())))
	return base64.RawURLEncoding.EncodeToString(mac)
}

// undoShown is what would take a call back, as far as it is known before the call: nil, nothing does.
func undoShown(ctx context.Context, p *plannedStep, scope *refs.Scope) []byte {
	if p.undo == nil {
		return nil
	}
	args, err := p.undo.args.ResolveButResult(ctx, nil, scope)
	if err != nil {
		return p.undo.text // it will not be made: what it refers to is not there
	}
	return undoText(p.undo.fn.Spec().Name, args)
}

func (w *waiting) add(p *plannedStep, c *journal.Call, undo []byte, name string) {
	call := ApprovalCall{Place: c.Place, ID: p.id, Function: c.Function, Effect: p.effect, Args: c.Args, Undo: undo, name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

// whatWaits are the calls that are to be approved together: this one, those of the other elements of its step, and those of
// later steps that refer to what has ended only.
func (r *run) whatWaits(ctx context.Context, p *plannedStep, c *journal.Call, undo []byte, name string) []ApprovalCall {
	s := r.shadow()
	s.record, s.waits = r.record.Rehearse(), &waiting{}
	defer s.release()
	s.rehearse(ctx, r.plan)
	if !slices.ContainsFunc(s.waits.calls, func(call ApprovalCall) bool { return call.name == name }) {
		s.waits.add(p, c, undo, name)
	}
	calls := s.waits.calls
	slices.SortStableFunc(calls, func(a, b ApprovalCall) int { return slices.Compare(stepsOf(a.Place), stepsOf(b.Place)) })
	for i := range calls {
		calls[i].Args = r.shown(calls[i].Function, calls[i].Args)
		if undo := gjson.ParseBytes(calls[i].Undo); undo.Get("args").IsObject() {
			function := undo.Get("fn").Str
			calls[i].Undo = undoText(function, r.shown(function, []byte(undo.Get("args").Raw)))
		}
	}
	return calls
}

// shown are arguments of a function as people may see them: with digests in the place of secrets.
func (r *run) shown(function string, args []byte) []byte {
	entry, err := r.view.Resolve(function)
	if err != nil {
		return args
	}
	return entry.Redacted(args, func(value []byte) []byte {
		w := &writer{b: []byte{'{'}}
		w.text("secret", hex.EncodeToString(r.o.Journal.MAC([]byte("secret"), value)[:8]))
		w.close('}')
		return w.b
	})
}

func names(calls []ApprovalCall) []string {
	list := make([]string, len(calls))
	for i := range calls {
		list[i] = calls[i].name
	}
	return list
}

// stopForApproval stops the run before the calls.
func (r *run) stopForApproval(p *plannedStep, calls []ApprovalCall) *fault.Error {
	r.stopped.Store(true)
	r.awaited = calls
	r.record.Tell(journal.Event{Kind: journal.Waits, Approvals: names(calls), Args: callsJSON(calls)})
	return r.required(p)
}

// refused is the fault for a call that somebody said no to.
func refused(p *plannedStep) *fault.Error {
	f := fault.New(fault.Denied, "%s was refused, and nothing of it was sent", p.name()).Under(p.at)
	f.Outcome = fault.NotSent
	return f
}

func (r *run) required(p *plannedStep) *fault.Error {
	who := "send resume with approve, or let onecall approve and onecall resume do it"
	if r.o.ApproveByPerson {
		who = "a person approves them with onecall approve"
	}
	f := fault.New(fault.ApprovalRequired, "%d calls wait for approval; nothing of them was sent: %s", len(r.awaited), who).Under(p.at)
	if len(r.awaited) == 1 {
		f.Message = r.awaited[0].Function + " waits for approval; nothing of it was sent: " + who
	}
	if !r.o.mustApprove(p.fn.Spec()) {
		f.Message += fmt.Sprintf(". %s needs it for the sake of its undo by %s", p.name(), p.undo.fn.Spec().Name)
	}
	f.Outcome = fault.NotSent
	return f
}

func callsJSON(calls []ApprovalCall) []byte {
	w := &writer{b: []byte{'['}}
	for i := range calls {
		w.approvalCall(&calls[i])
	}
	w.close(']')
	return w.b
}

func (w *writer) approvalCall(c *ApprovalCall) {
	w.open('{')
	w.text("at", c.Place)
	if c.ID != "" {
		w.text("id", c.ID)
	}
	w.text("fn", c.Function)
	w.text("effect", c.Effect.String())
	w.raw("args", c.Args)
	if c.Undo != nil {
		w.raw("undo", c.Undo)
	}
	w.close('}')
}

// approvePrefix begins each approve of an answer.
const approvePrefix = "oca_"

// approveOf is what approves exactly the calls that the run waits with.
func approveOf(j *journal.Journal, past *journal.Past) string {
	return approvePrefix + base64.RawURLEncoding.EncodeToString(waitsMAC(j, "approve", past))
}

// approve takes an approval that was sent with a resume.
func (s *exchange) approve(record *journal.Run) *fault.Error {
	past := record.Past()
	switch {
	case s.o.ApproveByPerson:
		return fault.New(fault.Denied, "a person approves this run with onecall approve, and no approve that is sent").Under("/approve")
	case past.Waiting == nil || !hmac.Equal([]byte(approveOf(s.o.Journal, past)), []byte(s.said.approve)):
		return fault.New(fault.Denied, "this approve is not that of the calls which the run waits with: resume it without approve, and it shows them").Under("/approve")
	}
	record.Tell(journal.Event{Kind: journal.Approved, Approvals: past.Waiting.Approvals})
	return nil
}

// Waiting are the calls that a run waits with, as ApprovalCall, for an operator.
func Waiting(ctx context.Context, j *journal.Journal, run string) (calls []gjson.Result, err error) {
	past, err := j.Read(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	return waitingCalls(past)
}

func waitingCalls(past *journal.Past) ([]gjson.Result, error) {
	if past.Waiting == nil || past.Row.Status != journal.Waiting {
		return nil, fault.New(fault.BadRequest, "the run does not wait for approval")
	}
	return gjson.ParseBytes(past.Waiting.Args).Array(), nil
}

// DigestOf tells calls that wait from others.
func DigestOf(calls []gjson.Result) string {
	h := sha256.New()
	for i := range calls {
		h.Write([]byte(calls[i].Raw + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Approve approves the calls that a run waits with, for an operator, and gives them. digest is that of the calls that are meant
// (DigestOf): where others wait, nothing is approved. "": whichever wait.
func Approve(ctx context.Context, j *journal.Journal, run, digest string) ([]gjson.Result, error) {
	return decide(ctx, j, run, digest, journal.Approved, journal.Waiting, fault.ApprovalRequired)
}

// Deny refuses them likewise.
func Deny(ctx context.Context, j *journal.Journal, run, digest string) ([]gjson.Result, error) {
	return decide(ctx, j, run, digest, journal.Denied, journal.Failed, fault.Denied)
}

func decide(ctx context.Context, j *journal.Journal, run, digest string, kind journal.Kind, status journal.Status, code fault.Code) ([]gjson.Result, error) {
	past, err := j.Take(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	calls, err := waitingCalls(past)
	if err == nil && digest != "" && digest != DigestOf(calls) {
		err = fault.New(fault.ResumeConflict, "the run waits with other calls than those: look at them again")
	}
	if err != nil {
		j.GiveBack(past)
		return nil, err
	}
	r := j.Resume(past, nil)
	r.Tell(journal.Event{Kind: kind, Approvals: past.Waiting.Approvals})
	return calls, r.Settle(status, code)
}
