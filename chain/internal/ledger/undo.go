package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Undone is the result of undoing calls.
type Undone struct {
	Undone int
	Left   []leftCall // perhaps or certainly applied, and not undone
}

// leftCall is a call that was not undone.
type leftCall struct {
	*journal.PastCall
	Why *fault.Error
}

// reasons says why calls were left, as far as a message has room for it.
func (t *Undone) reasons() string {
	const maxReasons = 3
	list := make([]string, len(t.Left))
	for i, c := range t.Left {
		list[i] = c.Why.Message
	}
	slices.Sort(list) // elements that ran side by side have ended in any order
	if more := len(list) - maxReasons; more > 0 {
		list = append(list[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// Failure is the fault for calls that were left; nil: none were.
func (t *Undone) Failure() *fault.Error {
	if len(t.Left) == 0 {
		return nil
	}
	return fault.New(t.Left[0].Why.Code, "%d of %d calls could not be undone: %s", len(t.Left), len(t.Left)+t.Undone, t.reasons())
}

// Write writes the calls that were left, each with its reason.
func (t *Undone) Write(w *rawjson.Writer) {
	w.OpenMember("left", '[')
	for _, c := range t.Left[:min(len(t.Left), MaxConflicts)] {
		w.Open('{')
		writePastCall(w, c.PastCall)
		w.Text("code", string(c.Why.Code))
		w.Text("message", c.Why.Message)
		w.Close('}')
	}
	w.Close(']')
}

// Undoing says how calls are undone.
type Undoing struct {
	Functions *steps.Registry
	Limit     time.Duration // of all calls together
	Timeout   time.Duration // of a call whose function says nothing
}

// UndoAll undoes all that the run has applied, the last call first. It has its own time limit and continues if the caller has left. A
// call that fails does not stop the others. prefix is that of Run.Writes.
func (l *Ledger) UndoAll(ctx context.Context, u *Undoing, prefix string) *Undone {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.Limit)
	defer cancel()
	ctx = steps.WithCallbacks(ctx, &steps.Callbacks{Functions: u.Functions, Caller: l.Caller})
	calls := slices.DeleteFunc(l.Record.Writes(prefix), func(c journal.PastCall) bool {
		return c.Undoes != 0 || c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown
	})
	slices.SortFunc(calls, func(a, b journal.PastCall) int { return cmp.Compare(endEvent(&b), endEvent(&a)) })
	t := &Undone{}
	for i := range calls {
		f := l.undoCall(ctx, u, &calls[i])
		now, stepPath := l.Record.Call(&calls[i])
		if now.Undone || now.UndoUnknown {
			l.writes.setOutcome(cmp.Or(stepPath, now.StepPath), now.KnownOutcome())
		}
		if f == nil {
			t.Undone++
			continue
		}
		t.Left = append(t.Left, leftCall{&now, f})
	}
	return t
}

// endEvent returns the number of the event that ended a call. If only an assumption ended it, endEvent returns the number of its start.
func endEvent(c *journal.PastCall) int { return cmp.Or(c.Ended, c.N) }

// undoCall undoes one call; nil: it was undone.
func (l *Ledger) undoCall(ctx context.Context, u *Undoing, c *journal.PastCall) *fault.Error {
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
	entry, err := u.Functions.Resolve(text.Get("fn").Str)
	if err != nil {
		return fault.From(err, "")
	}
	sent, f := entry.Accept(ctx, []byte(text.Get("args").Raw))
	if f != nil {
		return f
	}
	call := &journal.Call{StepPath: c.StepPath, Function: entry.Spec().Name, Effect: undoEffect(entry),
		EffectAssumed: !entry.Spec().EffectDeclared, Args: sent,
		Undoes: endEvent(c), Commits: entry.Spec().State, Restores: text.Get("version").Int()}
	call.Shown = l.Shown(entry, sent)
	l.Record.Prepare(call)
	if labels := text.Get("labels"); labels.Exists() {
		callbacks := *steps.CallbacksOf(ctx)
		callbacks.Labels = steps.ParseLabels(labels.Str)
		ctx = steps.WithCallbacks(ctx, &callbacks)
	}
	spec := entry.Spec()
	callCtx, cancel := steps.WithLimit(ctx, cmp.Or(spec.Timeout, spec.DefaultTimeout, u.Timeout), spec.Patient && spec.Timeout == 0)
	defer cancel()
	_, ended, err := Send(callCtx, entry, call, sent, nil, func([]byte) []byte { return nil })
	if ended.Kind == "" {
		return fault.From(err, "")
	}
	l.undoCalls.Add(1)
	if failure := call.End(&ended); failure != nil {
		return Fault(failure, "the outcome of "+spec.Name+" could not be recorded")
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

// AddTo returns a copy of a failure whose message also says what was undone.
func (t *Undone) AddTo(f *fault.Error) *fault.Error {
	extended := f.Under("")
	switch n := len(t.Left); {
	case n > 0:
		extended.Message += fmt.Sprintf(". Undo: %d undone, %d not: %s", t.Undone, n, t.reasons())
	case t.Undone > 0:
		extended.Message += fmt.Sprintf(". Undo: %d undone", t.Undone)
	}
	return extended
}

// EndUndo records the end of an undo that was asked for. A run of which certainly nothing was undone stays what it was, so that it can
// still be resumed.
func (l *Ledger) EndUndo(t *Undone, code fault.Code, message string) {
	if t.Undone > 0 || slices.ContainsFunc(t.Left, func(c leftCall) bool { return c.UndoUnknown }) {
		l.EndUndone(t, code, message)
		return
	}
	past := l.Record.Past().Row
	_ = l.Record.EndUnfinished(past.Status, past.Code, "") // after an error the row is what it was, too
	l.UndoneRun = l.Record.ID()
}

// EndUndone records that the run was undone, as t tells. A failure then names the run, since nothing can be resumed.
func (l *Ledger) EndUndone(t *Undone, code fault.Code, message string) {
	if l.Record.EndUndone(len(t.Left), code, message) == nil && l.private == nil {
		l.UndoneRun = l.Record.ID()
	}
}
