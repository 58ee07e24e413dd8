package chain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// undoOf returns the resolved call that undoes an applied call, {"fn","error"} if it cannot be resolved, or nil if there is none
// or if its arguments need the result, which is not known.
func (r *run) undoOf(ctx context.Context, p *plan.Step, scope *refs.Scope, raw []byte) []byte {
	u := p.Undo
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

// undoResult is the result of undoing calls.
type undoResult struct {
	undone int
	left   []leftCall // perhaps or certainly applied, and not undone
}

// leftCall is a call that was not undone.
type leftCall struct {
	*journal.PastCall
	why *fault.Error
}

// reasons says why calls were left, as far as a message has room for it.
func (t *undoResult) reasons() string {
	const maxReasons = 3
	list := make([]string, len(t.left))
	for i, c := range t.left {
		list[i] = c.why.Message
	}
	slices.Sort(list) // elements that ran side by side have ended in any order
	if more := len(list) - maxReasons; more > 0 {
		list = append(list[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// render writes the calls that were left, each with its reason.
func (t *undoResult) render(w *rawjson.Writer) {
	w.OpenMember("left", '[')
	for _, c := range t.left[:min(len(t.left), maxConflicts)] {
		w.Open('{')
		writePastCall(w, c.PastCall)
		w.Text("code", string(c.why.Code))
		w.Text("message", c.why.Message)
		w.Close('}')
	}
	w.Close(']')
}

// undoCalls undoes all that the run has applied, the last call first. It has its own time limit and continues if the caller has left. A
// call that fails does not stop the others. prefix is that of Run.Writes.
func (s *requestState) undoCalls(ctx context.Context, prefix string) *undoResult {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.Duration)
	defer cancel()
	ctx = steps.WithCallbacks(ctx, &steps.Callbacks{Functions: s.view, Caller: s.caller})
	calls := slices.DeleteFunc(s.record.Writes(prefix), func(c journal.PastCall) bool {
		return c.Undoes != 0 || c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown
	})
	slices.SortFunc(calls, func(a, b journal.PastCall) int { return cmp.Compare(endEvent(&b), endEvent(&a)) })
	t := &undoResult{}
	for i := range calls {
		f := s.undoCall(ctx, &calls[i])
		now, stepPath := s.record.Call(&calls[i])
		if now.Undone || now.UndoUnknown {
			s.writes.setOutcome(cmp.Or(stepPath, now.StepPath), now.KnownOutcome())
		}
		if f == nil {
			t.undone++
			continue
		}
		t.left = append(t.left, leftCall{&now, f})
	}
	return t
}

// undoSteps returns a step for each function that undoes one of the calls, so that awaitFunctions can wait for these functions.
func undoSteps(calls []journal.PastCall) (list []plan.StepRequest) {
	for i := range calls {
		c := &calls[i]
		if fn := gjson.GetBytes(c.Undo, "fn").Str; fn != "" && !slices.ContainsFunc(list, func(s plan.StepRequest) bool { return s.Fn == fn }) {
			list = append(list, plan.StepRequest{Fn: fn})
		}
	}
	return list
}

// endEvent returns the number of the event that ended a call. If only an assumption ended it, endEvent returns the number of its start.
func endEvent(c *journal.PastCall) int { return cmp.Or(c.Ended, c.N) }

// undoCall undoes one call; nil: it was undone.
func (s *requestState) undoCall(ctx context.Context, c *journal.PastCall) *fault.Error {
	if c.Outcome == fault.SentUnknown {
		return fault.New(fault.ResumeConflict, "it is not known whether %s was done at %s", c.Function, c.StepPath)
	}
	if c.Undo == nil {
		return fault.New(fault.NotSupported,
			"%s at %s has no undo: set it in the step, or for the function in the configuration, before the run", c.Function, c.StepPath)
	}
	text := gjson.ParseBytes(c.Undo)
	if problem := text.Get("error"); problem.Exists() {
		return fault.New(fault.ReferenceMissing, "%s at %s has an undo that cannot be made: %s", c.Function, c.StepPath, problem.Str)
	}
	if c.UndoUnknown {
		return fault.New(fault.ResumeConflict, "it is not known whether %s undid %s at %s", text.Get("fn").Str, c.Function, c.StepPath)
	}
	entry, err := s.view.Resolve(text.Get("fn").Str)
	if err != nil {
		return fault.From(err, "")
	}
	sent, f := entry.Accept(ctx, []byte(text.Get("args").Raw))
	if f != nil {
		return f
	}
	call := &journal.Call{StepPath: c.StepPath, Function: entry.Spec().Name, Effect: undoEffect(entry),
		EffectAssumed: !entry.Spec().EffectDeclared, Args: sent,
		Undoes: endEvent(c)}
	call.Shown = shownArguments(s.record, entry, sent)
	s.record.Prepare(call)
	if err := call.Begin(); err != nil {
		return journalFault(err, entry.Spec().Name+" was not called")
	}
	s.undoCallCount.Add(1)
	spec := entry.Spec()
	callCtx, cancel := withCallLimit(ctx, cmp.Or(spec.Timeout, spec.DefaultTimeout, s.o.StepTimeout), spec.Patient && spec.Timeout == 0)
	defer cancel()
	raw, err := entry.Send(callCtx, sent)
	if ended := call.End(&journal.Event{Result: raw, Code: fault.CodeOf(err), Message: reasonOf(err),
		Outcome: fault.OutcomeOf(err)}); ended != nil {
		return journalFault(ended, "the outcome of "+entry.Spec().Name+" could not be recorded")
	}
	if err != nil {
		return fault.From(err, "")
	}
	return nil
}

// undoEffect returns the effect under which an undo is recorded. A read would not be recorded, so it counts as a write.
func undoEffect(e *steps.Entry) string {
	if e.Spec().Effect == steps.Read {
		return steps.Write.String()
	}
	return e.Spec().Effect.String()
}

// checkUndo refuses a request to undo that cannot be carried out.
func (s *requestState) checkUndo() *fault.Error {
	switch {
	case s.override.ReadOnly:
		return fault.New(fault.Denied, "%s", cmp.Or(s.override.WhyReadOnly, plan.OnlyReads)).Under("/undo")
	case s.previewedRun != nil:
		return fault.New(fault.BadRequest, "undo has no dry run: onecall runs shows what the run has written").Under("/dryRun")
	}
	return nil
}

// answerUndo undoes an earlier run.
func (s *requestState) answerUndo(ctx context.Context) *Answer {
	record := s.o.Journal.Resume(s.leasedRun, nil)
	if f := applyAssumptions(record, s.resumption.assume); f != nil {
		return s.failureAnswer(ctx, f)
	}
	s.record, s.leasedRun = record, nil
	s.view = s.rules.AwaitFunctions(ctx, &plan.Request{Steps: undoSteps(record.Writes(""))})
	t := s.undoCalls(ctx, "")
	var failure *fault.Error
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Int("undone", int64(t.undone))
	t.render(w)
	w.Close('}')
	if len(t.left) > 0 {
		failure = fault.New(t.left[0].why.Code, "%d of %d calls could not be undone: %s", len(t.left), len(t.left)+t.undone, t.reasons())
	}
	code, message := fault.Code(""), ""
	if failure != nil {
		code, message = failure.Code, failure.Message
	}
	s.endUndone(code, message)
	c := s.content(facts.NoStep(failure))
	c.Result = w.B
	return s.answered(s.form.WriteStandard(ctx, c))
}

// addTo returns a copy of a failure whose message also says what was undone.
func (t *undoResult) addTo(f *fault.Error) *fault.Error {
	extended := f.Under("")
	switch n := len(t.left); {
	case n > 0:
		extended.Message += fmt.Sprintf(". Undo: %d undone, %d not: %s", t.undone, n, t.reasons())
	case t.undone > 0:
		extended.Message += fmt.Sprintf(". Undo: %d undone", t.undone)
	}
	return extended
}

// endUndone records that the run was undone. A failure then names the run, since nothing can be resumed.
func (s *requestState) endUndone(code fault.Code, message string) {
	if s.record.EndUnfinished(journal.Undone, code, message) == nil && s.privateJournal == nil {
		s.undoneRun = s.record.ID()
	}
}
