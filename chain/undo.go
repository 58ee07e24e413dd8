package chain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// plannedUndo is the call that takes a step's call back.
type plannedUndo struct {
	at     string // its JSON Pointer
	said   bool   // the step says it; else it is its function's default
	fn     *steps.Entry
	args   *refs.Template
	result bool   // args refer to $result
	text   []byte // {"fn","args"} as it is written
}

// undo compiles how the step's calls are taken back: as the step says, or else its function.
func (c *compiler) undo(l *level, s *step, p *plannedStep) {
	said, at := s.Undo, p.at+"/undo"
	switch {
	case said != nil && p.fn == nil:
		c.fault(fault.BadRequest, at, "undo goes with fn: give it to the steps that call functions")
		return
	case said == nil && (p.fn == nil || p.fn.Spec().Undo == nil || p.effect == steps.Read):
		return
	case said == nil:
		said = &undoRequest{Fn: p.fn.Spec().Undo.Function, Args: p.fn.Spec().Undo.Args}
	}
	entry, err := c.view.Resolve(said.Fn)
	if err != nil {
		if s.Undo != nil { // of a default nobody is told that may not use it
			c.faults.add(c.absent(said.Fn, err).Under(at + "/fn"))
		}
		return
	}
	if entry.Spec().Saved != nil {
		c.fault(fault.NotSupported, at+"/fn", "a saved chain takes nothing back: name a function")
		return
	}
	args := said.Args
	if args == nil {
		args = []byte("{}")
	}
	place := l.place(at+"/args", p.number)
	if place.Item, place.Result = l.item || s.ForEach != nil, true; s.Undo == nil {
		place = refs.Place{At: at + "/args", Result: true}
	}
	t, faults := refs.CompileTemplate(args, place)
	c.collect(l, faults)
	if t == nil {
		return
	}
	c.use(l, p, t.Uses())
	if s.Undo != nil { // a default is not the chain's fault
		c.badArguments(entry, at+"/args", entry.Check(t.Value(), c.holes(l, p, t, at+"/args")))
	}
	u := &plannedUndo{at: at, said: s.Undo != nil, fn: entry, args: t, text: undoText(entry.Spec().Name, args)}
	u.result = slices.ContainsFunc(t.Uses(), func(use refs.Use) bool { return use.Root == refs.RootResult })
	p.undo = u
}

// undoText is a call as the journal keeps it.
func undoText(function string, args []byte) []byte {
	w := &writer{b: []byte{'{'}}
	w.text("fn", function)
	w.raw("args", args)
	w.close('}')
	return w.b
}

// undoOf is what takes back a call that was applied, resolved, or {"fn","error"} where it cannot be; nil: nothing does.
func (r *run) undoOf(ctx context.Context, p *plannedStep, scope *refs.Scope, raw []byte) []byte {
	u := p.undo
	if u == nil || raw == nil && u.result {
		return nil
	}
	own := *scope
	own.Result = raw
	args, err := u.args.Resolve(ctx, nil, &own)
	if err != nil {
		w := &writer{b: []byte{'{'}}
		w.text("fn", u.fn.Spec().Name)
		w.text("error", coded(err, "").Message)
		w.close('}')
		return w.b
	}
	return undoText(u.fn.Spec().Name, args)
}

// takenBack is what an undo came to.
type takenBack struct {
	undone int
	left   []*journal.PastCall // applied, or perhaps, and not taken back
	first  *fault.Error        // why the first that could not be taken back was not
}

// takeBack takes back all that the run has applied, the last first. It has a time of its own, and goes on when the caller has
// left. One call that fails stops no other. place is as Run.Writes takes it.
func (s *exchange) takeBack(ctx context.Context, place string) *takenBack {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.maxDuration)
	defer cancel()
	ctx = steps.WithCallbacks(ctx, &steps.Callbacks{Functions: s.view, Caller: s.owner})
	calls := slices.DeleteFunc(s.record.Writes(place), func(c journal.PastCall) bool {
		return c.Undoes != 0 || c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown
	})
	slices.SortFunc(calls, func(a, b journal.PastCall) int { return cmp.Compare(endOf(&b), endOf(&a)) })
	t := &takenBack{}
	for i := range calls {
		f := s.takeBackCall(ctx, &calls[i])
		now, place := s.record.Call(&calls[i])
		if now.Undone || now.Unsure {
			s.writes.becomes(cmp.Or(place, now.Place), now.Known())
		}
		if f == nil {
			t.undone++
			continue
		}
		t.left = append(t.left, &now)
		if t.first == nil {
			t.first = f
		}
	}
	return t
}

// undoSteps are the steps that would make the calls which take back: their functions may have to be waited for.
func undoSteps(calls []journal.PastCall) (list []step) {
	for i := range calls {
		c := &calls[i]
		if fn := gjson.GetBytes(c.Undo, "fn").Str; fn != "" && !slices.ContainsFunc(list, func(s step) bool { return s.Fn == fn }) {
			list = append(list, step{Fn: fn})
		}
	}
	return list
}

// endOf is the number of the event with which a call ended; one that did not, of which a caller has said how it ended, has that with which it
// began.
func endOf(c *journal.PastCall) int { return cmp.Or(c.Ended, c.N) }

// takeBackCall takes back one call.
func (s *exchange) takeBackCall(ctx context.Context, c *journal.PastCall) *fault.Error {
	if c.Outcome == fault.SentUnknown {
		return fault.New(fault.ResumeConflict, "whether %s was done at %s is not known", c.Function, c.Place)
	}
	if c.Undo == nil {
		return fault.New(fault.NotSupported, "%s at %s has no undo: a step, or functions of the configuration, gives it before the call is made", c.Function, c.Place)
	}
	text := gjson.ParseBytes(c.Undo)
	if why := text.Get("error"); why.Exists() {
		return fault.New(fault.ReferenceMissing, "%s at %s has an undo that cannot be made: %s", c.Function, c.Place, why.Str)
	}
	if c.Unsure {
		return fault.New(fault.ResumeConflict, "whether %s took %s back at %s is not known", text.Get("fn").Str, c.Function, c.Place)
	}
	entry, err := s.view.Resolve(text.Get("fn").Str)
	if err != nil {
		return coded(err, "")
	}
	sent, f := entry.Accept(ctx, []byte(text.Get("args").Raw))
	if f != nil {
		return f
	}
	call := &journal.Call{Place: c.Place, Function: entry.Spec().Name, Effect: writing(entry), Guessed: !entry.Spec().EffectDeclared, Args: sent,
		Undoes: endOf(c)}
	call.Shown = shownArguments(s.record, entry, sent)
	s.record.Prepare(call)
	if err := call.Begin(); err != nil {
		return unwritten(err, entry.Spec().Name+" was not called")
	}
	own, cancel := context.WithTimeout(ctx, cmp.Or(entry.Spec().Timeout, s.o.StepTimeout))
	defer cancel()
	raw, err := entry.Send(own, sent)
	if ended := call.End(&journal.Event{Result: raw, Code: fault.CodeOf(err), Outcome: fault.OutcomeOf(err)}); ended != nil {
		return unwritten(ended, "whether "+entry.Spec().Name+" was done is not remembered")
	}
	if err != nil {
		return coded(err, "")
	}
	return nil
}

// writing is the effect as the journal has it: of an undo never that of a read, which nobody would remember.
func writing(e *steps.Entry) string {
	if e.Spec().Effect == steps.Read {
		return steps.Write.String()
	}
	return e.Spec().Effect.String()
}

// onlyReads is what a tool says of itself that only reads.
const onlyReads = "this tool only reads: send the same to the tool chain"

// mayUndo refuses what a request to undo a run cannot be.
func (s *exchange) mayUndo() *fault.Error {
	switch {
	case s.override.ReadOnly:
		return fault.New(fault.Denied, "%s", cmp.Or(s.override.WhyReadOnly, onlyReads)).Under("/undo")
	case s.looked != nil:
		return fault.New(fault.BadRequest, "undo has no dry run: onecall runs shows what the run has written").Under("/dryRun")
	}
	return nil
}

// undoRun answers a request to undo an earlier run.
func (s *exchange) undoRun(ctx context.Context) *Answer {
	record := s.o.Journal.Resume(s.taken, nil)
	if f := assume(record, s.said.assume); f != nil {
		return s.failure(ctx, f)
	}
	s.record, s.taken = record, nil
	s.await(ctx, &request{Steps: undoSteps(record.Writes(""))})
	t := s.takeBack(ctx, "")
	d := &draft{exchange: s, step: -1, index: -1, member: "result"}
	w := &writer{b: []byte{'{'}}
	w.int("undone", int64(t.undone))
	w.pastCalls("left", t.left)
	w.close('}')
	d.result = w.b
	if len(t.left) > 0 {
		d.err = fault.New(t.first.Code, "%d of %d calls could not be taken back: %s", len(t.left), len(t.left)+t.undone, t.first.Message)
	}
	code := fault.Code("")
	if d.err != nil {
		code = d.err.Code
	}
	_ = s.record.Settle(journal.Undone, code)
	return d.answer(ctx)
}

// told is a failure that says what was taken back after it.
func (t *takenBack) told(f *fault.Error) *fault.Error {
	own := f.Under("")
	switch n := len(t.left); {
	case n > 0:
		own.Message += fmt.Sprintf(". Undo: %d taken back, %d not, the first as %s", t.undone, n, t.first.Message)
	case t.undone > 0:
		own.Message += fmt.Sprintf(". Undo: all of %d taken back", t.undone)
	}
	return own
}

// undo takes back what the run has written, as it has failed.
func (d *draft) undo(ctx context.Context) {
	t := d.takeBack(ctx, "")
	d.err = t.told(d.err)
	_ = d.record.Settle(journal.Undone, d.err.Code)
}
