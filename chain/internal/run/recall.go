package run

import (
	"context"
	"strconv"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// lookUp looks for a call in the journal and, if needed, waits for its approval. settled: the call must not be made now, and raw or f takes
// the place of its result.
func (r *Run) lookUp(ctx context.Context, p *plan.Step, sent []byte, scope *refs.Scope, s *stepRun) (raw []byte, f *fault.Error,
	settled bool) {
	if s.call == nil {
		s.call = r.ledger.NewCall(s.stepPath(p), p.Fn, r.blocks.Digests(sent))
		s.Recorded = s.call
		if raw, f, settled := r.recall(ctx, p, s); settled {
			if s.earlierAttempts > 0 { // the call is tried again: an approval that it has used remains valid
				s.call.Approval = r.usedApproval(ctx, p, scope, s)
			}
			return raw, f, true
		}
	}
	if s.call.Approval == "" && s.call.Task() != "" && s.call.Previous() != nil { // nothing is sent that was not approved
		s.call.Approval = r.usedApproval(ctx, p, scope, s)
	}
	if s.call.Approval == "" {
		if f := r.awaitApproval(ctx, p, scope, s); f != nil {
			return nil, f, true
		}
	}
	return s.stopIf(r.ledger.Rehearsal)
}

// stepPath returns the path of a call, in the form that the answer's member writes has.
func (s *stepRun) stepPath(p *plan.Step) string {
	if s.frame == nil && s.Index < 0 {
		return strconv.Itoa(p.Number)
	}
	return facts.FormatPath(append(s.frame.Path(), p.Number, s.Index))
}

// send makes a call and records its start and end. If the end of a write cannot be recorded, no further step starts.
func (r *Run) send(ctx context.Context, p *plan.Step, sent []byte, scope *refs.Scope, s *stepRun) (raw []byte, f *fault.Error) {
	var err error
	if s.call == nil {
		raw, err = p.Fn.Send(ctx, sent)
	} else {
		var ended journal.Event
		var undo func([]byte) []byte
		if p.Undo != nil {
			undo = func(raw []byte) []byte { return r.undoCall(ctx, p, scope, raw) }
		}
		raw, ended, err = ledger.Send(ctx, p.Fn, s.call, sent, r.results.keepUndo, undo)
		if ended.Kind != "" && s.call.End(&ended) != nil {
			r.journalFailed.Store(true)
		}
	}
	if err != nil {
		return nil, fault.From(err, "")
	}
	return raw, nil
}

// recall returns what the journal knows of a call. settled: the call must not be made now. A new write is a conflict if the chain no longer
// contains every write that the run has made (see checkConflict).
func (r *Run) recall(ctx context.Context, p *plan.Step, s *stepRun) (raw []byte, f *fault.Error, settled bool) {
	d, sibling := r.ledger.Look(s.call, p.Repeatable, p.MaxRetries)
	previous := s.call.Previous()
	switch d {
	case ledger.Sibling:
		if err := ledger.RestoreBlocks(&r.blocks, sibling); err != nil {
			return nil, fault.From(err, p.At), true
		}
		return sibling.Result, nil, true
	case ledger.Reuse:
		if err := ledger.RestoreBlocks(&r.blocks, previous); err != nil {
			return nil, fault.From(err, p.At), true
		}
		return s.reuse(p, previous)
	case ledger.Unknown:
		return r.unknownCall(p, s, previous)
	case ledger.Make:
		return nil, nil, false
	}
	if p.Effect != steps.Read {
		if f := r.checkConflict(ctx, p); f != nil {
			return nil, f, true
		}
	}
	if previous != nil && (previous.Outcome == fault.SentUnknown || s.call.Renews) {
		s.call.MatchPrevious(false)
	}
	if d == ledger.TryAgain {
		s.earlierAttempts, s.LastCall = s.call.ContinueAttempts(), previous.EndedAt()
		f := fault.New(previous.Code, "%s ended with %s before the run was resumed, and is tried again", p.Name(), previous.Code).Under(p.At)
		f.Outcome = previous.Outcome
		return nil, f, true
	}
	return nil, nil, false
}

// unknownCall ends a call whose outcome is not known. A rehearsal only records the call and continues, since the call is in the chain.
func (r *Run) unknownCall(p *plan.Step, s *stepRun, previous *journal.PastCall) ([]byte, *fault.Error, bool) {
	r.ledger.NoteUnknown(previous)
	if !r.ledger.Rehearsal {
		return nil, r.ledger.UnknownFault(&p.Planned, s.call.StepPath, previous), true
	}
	s.call.MatchPrevious(false)
	return s.stopIf(r.ledger.Rehearsal)
}

// usedApproval returns the name of the approval that an earlier attempt at a call has used up, if it covers the call as it is now; "": it
// does not.
func (r *Run) usedApproval(ctx context.Context, p *plan.Step, scope *refs.Scope, s *stepRun) string {
	names := s.call.Previous().Approvals
	if len(names) == 0 || names[0] != r.ledger.ApprovalName(s.call, r.undoShown(ctx, p, scope), p.Flows) {
		return ""
	}
	return names[0]
}

// unknownEarlier returns sent_unknown if the run was resumed and it is not known how this call ended before the resume, otherwise "". If
// the call is refused now, that says nothing about the earlier attempt.
func (s *stepRun) unknownEarlier() fault.Outcome {
	if s.call != nil {
		if previous := s.call.Previous(); previous != nil && previous.Outcome == fault.SentUnknown && previous.Task() == "" {
			return previous.Outcome
		}
	}
	return ""
}

// stopIf marks a call as pending in a rehearsal, which calls nothing and goes on with the other steps.
func (s *stepRun) stopIf(rehearsal bool) (raw []byte, f *fault.Error, settled bool) {
	if !rehearsal {
		return nil, nil, false
	}
	s.Pending = true
	return nil, errPending, true
}

// errPending takes the place of a result that a rehearsal does not have, because it makes no calls.
var errPending = fault.New(fault.Internal, "a rehearsal calls nothing")

// reuse returns the recorded result or failure of a call.
func (s *stepRun) reuse(p *plan.Step, previous *journal.PastCall) ([]byte, *fault.Error, bool) {
	s.call.MatchPrevious(true)
	s.Reused++
	s.LastCall = previous.EndedAt()
	switch {
	case previous.Result != nil:
		return previous.Result, nil, true
	case previous.Assumed:
		return null, nil, true
	}
	f := fault.New(previous.Code, "%s ended with %s before the run was resumed, and is not called again", p.Name(), previous.Code).Under(p.At)
	if previous.Code == "" {
		f = fault.New(fault.Internal, "%s succeeded before the run was resumed, but its result was not kept: give the result in assume",
			p.Name()).Under(p.At)
	}
	f.Outcome = previous.Outcome
	return nil, f, true
}
