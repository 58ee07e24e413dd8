package run

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// undoSaved undoes what a failed saved chain has written, if its onError says so.
func (r *Run) undoSaved(ctx context.Context, p *plan.Step, frame *facts.Frame, f *fault.Error) *fault.Error {
	if p.Inline.OnError != plan.OnErrorUndo || f.Code == fault.ResumeConflict || r.ledger.Record == nil || r.ledger.Rehearsal ||
		r.approvals.stopped.Load() || r.pauses.suspended() {
		return f
	}
	return r.ledger.UndoAll(ctx, r.Undoing(), facts.FormatPath(frame.Path())+".").AddTo(f)
}

// undoCall returns the call that undoes a call with this result, as the journal keeps it: with the bytes of blocks, which may be gone when
// it is made.
func (r *Run) undoCall(ctx context.Context, p *plan.Step, scope *refs.Scope, raw []byte) []byte {
	text := r.blocks.MarkHandles(p.Undo.Call(context.WithoutCancel(ctx), scope, raw))
	if n := r.blocks.ExpandedLength(text); n > len(text) {
		if err := r.results.keepUndo(n); err != nil {
			return p.Undo.Impossible(err)
		}
	}
	return r.blocks.Expand(text)
}

// Undoing says how the run undoes its calls.
func (r *Run) Undoing() *ledger.Undoing {
	return &ledger.Undoing{Functions: r.o.Functions, Limit: r.plan.MaxDuration, Timeout: r.o.StepTimeout}
}
