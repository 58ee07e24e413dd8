package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// approvals are the approvals that a run asks for, one at a time.
type approvals struct {
	mu      sync.Mutex
	stopped atomic.Bool         // a call was not approved: no further step starts
	calls   []facts.WaitingCall // in a rehearsal: those that would need approval
}

// awaitApproval waits until a call that needs approval is approved. A fault means that the call must not be made.
func (r *Run) awaitApproval(ctx context.Context, p *plan.Step, scope *refs.Scope, s *stepRun) *fault.Error {
	if !p.MustApprove() {
		return nil
	}
	undo := r.undoShown(ctx, p, scope)
	name := r.ledger.ApprovalName(s.call, undo, p.Flows)
	if r.ledger.Record.Approved(name) {
		s.call.Approval = name
		return nil
	}
	if denial := r.ledger.Record.Denial(name); denial != nil {
		return ledger.DeniedFault(p.Name(), denial).Under(p.At)
	}
	if r.ledger.Rehearsal {
		r.approvals.add(p, s.call, undo, name)
		return nil
	}
	defer timerOf(ctx).pause()() // the chain's time does not pass while a person decides
	r.approvals.mu.Lock()
	defer r.approvals.mu.Unlock()
	if r.ledger.Record.Approved(name) { // another element of the step asked for all of them
		s.call.Approval = name
		return nil
	}
	switch {
	case r.approvals.stopped.Load() && len(r.ledger.Waiting) == 0: // a person has denied an earlier call
		return deniedFault(p)
	case r.approvals.stopped.Load():
		return approvalRequired(r.ledger, p)
	}
	calls, f := r.ledger.Refuse(ctx, r.collectWaiting(ctx, p, s.call, undo, name))
	if f != nil {
		return f.Under(p.At)
	}
	if denial := r.ledger.Record.Denial(name); denial != nil {
		return ledger.DeniedFault(p.Name(), denial).Under(p.At)
	}
	return r.ask(ctx, p, s.call, name, calls)
}

// ask asks about calls, of which call is one.
func (r *Run) ask(ctx context.Context, p *plan.Step, call *journal.Call, name string, calls []facts.WaitingCall) *fault.Error {
	if r.o.Ask == nil {
		return r.stopForApproval(ctx, p, calls)
	}
	approved, err := r.o.Ask(r.ends.parent, calls)
	switch dismissed := errors.Is(err, facts.ErrDismissed); {
	case dismissed, err == nil && !approved:
		r.ledger.Deny(ctx, calls, dismissed)
		r.approvals.stopped.Store(true)
		return deniedFault(p)
	case err != nil:
		return r.stopForApproval(ctx, p, calls)
	}
	r.ledger.Approve(calls)
	call.Approval = name
	return nil
}

// undoShown returns the call that would undo a call, as far as it is known in advance; nil: there is none.
func (r *Run) undoShown(ctx context.Context, p *plan.Step, scope *refs.Scope) []byte {
	if p.Undo == nil {
		return nil
	}
	args, err := p.Undo.Args.ResolveButResult(ctx, nil, scope)
	if err != nil {
		return p.Undo.Text // the call will not be made: a reference is missing
	}
	return plan.UndoText(p.Undo.Fn.Spec().Name, r.blocks.Digests(args))
}

// add adds a call to those that would need approval.
func (w *approvals) add(p *plan.Step, c *journal.Call, undo []byte, name string) {
	call := facts.WaitingCall{StepPath: c.StepPath, ID: p.ID, Function: c.Function, Effect: p.Effect, Args: c.Args, Undo: undo,
		Flows: p.Flows, Name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

// collectWaiting returns the calls to approve together: this one, those of the other elements of its step, and those of later steps that
// depend only on ended steps.
func (r *Run) collectWaiting(ctx context.Context, p *plan.Step, c *journal.Call, undo []byte, name string) []facts.WaitingCall {
	next := &Rehearse(ctx, r.plan, r.o, r.ledger.Rehearse()).approvals
	if !slices.ContainsFunc(next.calls, func(call facts.WaitingCall) bool { return call.Name == name }) {
		next.add(p, c, undo, name)
	}
	calls := next.calls
	slices.SortStableFunc(calls, func(a, b facts.WaitingCall) int {
		return slices.Compare(facts.ParsePath(a.StepPath), facts.ParsePath(b.StepPath))
	})
	for i := range calls {
		calls[i].Args = r.ledger.Redacted(r.o.Functions, calls[i].Function, calls[i].Args)
		if undo := gjson.ParseBytes(calls[i].Undo); undo.Get("args").IsObject() {
			function := undo.Get("fn").Str
			calls[i].Undo = plan.UndoText(function, r.ledger.Redacted(r.o.Functions, function, []byte(undo.Get("args").Raw)))
		}
	}
	return calls
}

// stopForApproval stops the run before the calls.
func (r *Run) stopForApproval(ctx context.Context, p *plan.Step, calls []facts.WaitingCall) *fault.Error {
	r.approvals.stopped.Store(true)
	r.ledger.Wait(ctx, calls)
	return approvalRequired(r.ledger, p)
}

// deniedFault is the fault for a call that a person has denied.
func deniedFault(p *plan.Step) *fault.Error {
	f := fault.New(fault.Denied, "%s was denied, and it was not sent", p.Name()).Under(p.At)
	f.Outcome = fault.NotSent
	return f
}

// approvalRequired is the fault for a call that waits for approval, like those that wait with it.
func approvalRequired(l *ledger.Ledger, p *plan.Step) *fault.Error {
	byHand := l.ByHand(l.Record.ID())
	what, pronoun := fmt.Sprintf("%d calls wait for approval; none of them was sent: ", len(l.Waiting)), "them"
	if len(l.Waiting) == 1 {
		what, pronoun = l.Waiting[0].Function+" waits for approval; it was not sent: ", "it"
	}
	advice := "send resume with approve, or resume once a person has approved " + byHand
	if l.NeedsPerson() {
		advice = "a person approves " + pronoun + " " + byHand
	}
	f := fault.New(fault.ApprovalRequired, "%s", what+advice).Under(p.At)
	switch {
	case len(p.Flows) > 0:
		f.Message += ". A flow rule asks: " + strings.Join(p.Flows, "; ")
	case !p.Approve:
		f.Message += fmt.Sprintf(". %s needs approval because its undo, %s, does", p.Name(), p.Undo.Fn.Spec().Name)
	}
	f.Outcome = fault.NotSent
	return f
}
