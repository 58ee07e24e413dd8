package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// undoOf returns the resolved call that undoes an applied call, {"fn","error"} if it cannot be resolved, or nil if there is none
// or if its arguments need the result, which is not known.
func undoOf(ctx context.Context, u *plan.Undo, scope *refs.Scope, raw []byte) []byte {
	if u == nil || raw == nil && u.ReadsResult {
		return nil
	}
	undoScope := *scope
	undoScope.Result = raw
	args, err := u.Args.Resolve(ctx, nil, &undoScope)
	if err != nil {
		w := &rawjson.Writer{B: []byte{'{'}}
		w.Text("fn", u.Fn.Spec().Name)
		w.Text("error", fault.From(err, "").Message)
		w.Close('}')
		return w.B
	}
	return plan.UndoText(u.Fn.Spec().Name, args)
}

// undoSaved undoes what a failed saved chain has written, if its onError says so.
func (r *run) undoSaved(ctx context.Context, p *plan.Step, frame *facts.Frame, f *fault.Error) *fault.Error {
	if p.Inline.OnError != plan.OnErrorUndo || f.Code == fault.ResumeConflict || r.ledger.Record == nil || r.ledger.Rehearsal ||
		r.approvals.stopped.Load() || r.isSuspended() {
		return f
	}
	return r.ledger.UndoAll(ctx, r.undoing(), facts.FormatPath(frame.Path())+".").AddTo(f)
}

// undoing says how the run undoes its calls.
func (r *run) undoing() *ledger.Undoing {
	return &ledger.Undoing{Functions: r.o.Functions, Limit: r.plan.MaxDuration, Timeout: r.o.StepTimeout}
}
