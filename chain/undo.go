package chain

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// undoSteps returns a step for each function that undoes one of the calls, so that these functions can be waited for.
func undoSteps(calls []journal.PastCall) (list []plan.StepRequest) {
	for i := range calls {
		c := &calls[i]
		if fn := gjson.GetBytes(c.Undo, "fn").Str; fn != "" && !slices.ContainsFunc(list, func(s plan.StepRequest) bool { return s.Fn == fn }) {
			list = append(list, plan.StepRequest{Fn: fn})
		}
	}
	return list
}

// checkUndo refuses a request to undo that cannot be carried out.
func (s *request) checkUndo() *fault.Error {
	switch {
	case s.override.ReadOnly:
		return fault.New(fault.Denied, "%s", cmp.Or(s.override.WhyReadOnly, plan.OnlyReads)).Under("/undo")
	case s.ledger.Previewed() != nil:
		return fault.New(fault.BadRequest, "undo has no dry run: onecall runs shows what the run has written").Under("/dryRun")
	}
	return nil
}

// answerUndo undoes an earlier run.
func (s *request) answerUndo(ctx context.Context) *Answer {
	if f := s.ledger.BeginUndo(); f != nil {
		return s.failureAnswer(ctx, f)
	}
	functions := s.rules.AwaitFunctions(ctx, &plan.Request{Steps: undoSteps(s.ledger.Record.Writes(""))})
	t := s.ledger.UndoAll(ctx, &ledger.Undoing{Functions: functions, Limit: s.limits.Duration, Timeout: s.o.StepTimeout}, "")
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Int("undone", int64(t.Undone))
	t.Write(w)
	w.Close('}')
	failure, code, message := t.Failure(), fault.Code(""), ""
	if failure != nil {
		code, message = failure.Code, failure.Message
	}
	s.ledger.EndUndo(t, code, message)
	c := s.content(facts.NoStep(failure))
	c.Result = w.B
	return s.answer(ctx, c)
}
