package run

import (
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// runInline runs an inline chain. The result is the value of its return, or without one the result of its last step.
func (r *Run) runInline(ctx context.Context, p *plan.Step, args []byte, outer *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	if p.Saved != nil {
		sent, refused := p.Saved.Accept(ctx, args)
		if refused != nil {
			return nil, refused.Under(faultPointer(p, refused))
		}
		args = sent
	}
	input := inputText{run: r, input: args}
	defer input.release()
	scope := refs.Scope{Input: args, State: outer.State, Item: outer.Item, Index: outer.Index, MaxBytes: outer.MaxBytes, Now: outer.Now,
		Blocks: outer.Blocks}
	if r.blocks.Any() {
		scope.InputText = input.text
	}
	var frame *facts.Frame // needed only for the paths of calls that write or are recorded
	if p.Effect != steps.Read || r.ledger.Record != nil {
		frame = &facts.Frame{Outer: s.frame, Step: p.Number, Index: s.Index}
	}
	runs := r.runLevel(ctx, p.Inline, scope, frame)
	first := -1
	for i := range runs {
		s.Calls += runs[i].Calls
		s.Reused += runs[i].Reused
		s.Pending = s.Pending || runs[i].Pending
		s.Truncated = s.Truncated || runs[i].Truncated
		if runs[i].LastCall.After(s.LastCall) {
			s.LastCall = runs[i].LastCall
		}
		if runs[i].Status == facts.StatusFailed && first < 0 {
			first = i
		}
	}
	if s.Pending {
		return nil, errPending
	}
	raw, f := r.evalReturn(ctx, p.Inline, runs, scope)
	if first >= 0 {
		s.Recorded = runs[first].Recorded
		s.Failed, s.Outcome = runs[first].Failed, runs[first].Outcome
		f = runs[first].Err
	}
	if f == nil && ctx.Err() != nil {
		f = r.ends.interrupted(p.At)
	}
	if f == nil && skippedForBudget(runs) {
		f = r.outOfCallsFault(p.At)
	}
	if f == nil && r.journalFailed.Load() && slices.ContainsFunc(runs, func(s facts.Step) bool { return s.Reason == facts.ReasonStopped }) {
		f = journalDownFault(p.At)
	}
	if f != nil && p.Saved != nil {
		f = r.undoSaved(ctx, p, frame, f)
	}
	return raw, f
}

// inputText is the input of an inline chain as expressions see it: a text like any other, with base64 in place of the marks of blocks. It
// is made when the first one asks for it.
type inputText struct {
	run   *Run
	input []byte

	once     sync.Once
	expanded []byte
	held     int
	fault    *fault.Error
}

func (t *inputText) text() ([]byte, *fault.Error) {
	t.once.Do(func() {
		t.expanded, t.fault = t.run.expand(t.input)
		if more := len(t.expanded) - len(t.input); t.fault == nil && more > 0 {
			if t.fault = t.run.o.Memory.Hold(more); t.fault == nil {
				t.held = more
			}
		}
	})
	return t.expanded, t.fault
}

// release releases the memory of the text, when no step needs it any more.
func (t *inputText) release() { t.run.o.Memory.Release(t.held) }

func skippedForBudget(runs []facts.Step) bool {
	for i := range runs {
		if runs[i].Reason == facts.ReasonBudget {
			return true
		}
	}
	return false
}

// evalReturn evaluates the `return` of a level over the results that exist. Without `return` it is the last step's result.
func (r *Run) evalReturn(ctx context.Context, p *plan.Plan, runs []facts.Step, scope refs.Scope) ([]byte, *fault.Error) {
	if p.Returned == nil {
		if raw := runs[len(runs)-1].Raw; raw != nil {
			return raw, nil
		}
		return null, nil
	}
	scope.Steps = make([]refs.StepResult, len(runs))
	for i := range runs {
		scope.Steps[i] = refs.StepResult{Raw: runs[i].Raw, Status: runs[i].Status}
	}
	scope.Lenient = true
	raw, err := p.Returned.Resolve(ctx, nil, &scope)
	if err != nil {
		return null, fault.From(err, p.ReturnAt)
	}
	expanded, f := r.expand(raw)
	if f != nil {
		return null, f.Under(p.ReturnAt)
	}
	return expanded, nil
}
