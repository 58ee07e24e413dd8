package chain

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// ErrDismissed is an error of Caller.Approve: the person has left the question without a word. The calls are denied to their run, and the
// denial is remembered for no other (journal.Options.Remember).
var ErrDismissed = facts.ErrDismissed

// MustApprove reports whether calls of a function need approval. A front end must not make such calls without the engine.
func (e *Engine) MustApprove(f *steps.Spec) bool { return plan.MustApprove(f, e.o.Approve) }

// MustPlan reports whether flow rules may concern calls of a function by themselves: what it gives is remembered, or what a model writes
// into it is checked. A front end must not make such calls without the engine.
func (e *Engine) MustPlan(f *steps.Spec) bool { return e.o.policy.MustPlan(f) }

// AsksOfFlows reports whether some flow rule asks a person, so that calls of any function may wait for approval.
func (e *Engine) AsksOfFlows() bool {
	return slices.ContainsFunc(e.o.Flows, func(r FlowRule) bool { return r.Do == plan.FlowApprove })
}

// Ruling is what an operator decides about calls of a run. A place is that of a call, its member at (3, 3[7], 3[7].1), or of a step with
// several calls. The id of a step stands for its number, but not within the chain of another step.
type Ruling struct {
	Digest        string                     // DigestOf the calls that the operator has seen; "": whichever Waiting returns
	Approve, Deny []string                   // the places of calls
	Rest          journal.Kind               // Approved or Denied: what is decided about the calls at no place; "": they stay as they are
	Sees          func(function string) bool // whether the ruling is about calls of a function; nil: of all. The other calls stay as they are
	By, Reason    string                     // who decides, and why; the caller of the run reads both. "": it is not known
}

// Waiting returns the calls of a run that Decide decides about, in the form of ApprovalCall.JSON: those that it waits for or, if it waits
// for none, those that were denied, with when, by whom and why in their member denied, and those that were approved and not made since,
// with a member approved: true, which can be denied. It fails with bad_request if there are none.
func Waiting(ctx context.Context, j *journal.Journal, run string) (calls []gjson.Result, err error) {
	past, err := j.Read(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	return ledger.Offered(past)
}

// Pick returns those of the calls of Waiting that are at some places; see Ruling. It fails with bad_request if none is at one of them.
func Pick(calls []gjson.Result, places []string) ([]gjson.Result, error) {
	return ledger.Pick(calls, places)
}

// Decide approves calls of a run, each of which may then be made once, and denies others, which are denied to every resume until they are
// approved. It returns the calls that still wait. It fails with resume_conflict if the digest is not that of the calls of Waiting, and with
// bad_request if a place has no call.
func Decide(ctx context.Context, j *journal.Journal, run string, r *Ruling) (waiting []gjson.Result, err error) {
	return ledger.Decide(ctx, j, run, (*ledger.Ruling)(r))
}

// DecideOwn is Decide for a caller (nil: the zero Caller) about a run of its own that waits. approve is that of the answer that showed the
// calls, so this gives the caller no right that sending approve with a resume does not give; where only a person approves, it fails with
// denied. The run goes on when it is resumed. Errors otherwise: token_expired, busy, denied if other calls wait now.
func (e *Engine) DecideOwn(ctx context.Context, run, approve string, r *Ruling, caller *Caller) (waiting []gjson.Result, f *fault.Error) {
	return e.newRequest(caller).ledger.DecideOwn(ctx, run, approve, (*ledger.Ruling)(r))
}

// EndsWhereDenied reports whether a denied call ends the chain of a run, which does not say onError: continue.
func EndsWhereDenied(past *journal.Past) bool {
	return gjson.GetBytes(past.Chain, "onError").Str != "continue"
}

// DigestOf identifies a list of calls of Waiting.
func DigestOf(calls []gjson.Result) string { return ledger.DigestOf(calls) }
