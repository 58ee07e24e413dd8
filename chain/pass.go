package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/internal/run"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// Passed is a call that Engine.Pass has made or refused.
type Passed struct {
	Result []byte
	Err    error // see Engine.Pass; nil: the call succeeded

	entry   *steps.Entry
	begun   bool   // false: the arguments were refused
	resumes string // the run that a resume can continue; "": none
}

// Pass calls one function for a front end that passes its result on unchanged. There is no plan, no token budget and no Answer. caller is a
// Caller.ID. With a journal, a call that is not safe to repeat is recorded as a run of one step. Errors are those of steps.Entry.Call, and
// unavailable if the journal cannot be written; then nothing was sent. AnswerFailure tells them to the caller. Calls that need approval
// (MustApprove) must not be passed.
func (e *Engine) Pass(ctx context.Context, entry *steps.Entry, args []byte, caller string) Passed {
	passed := Passed{entry: entry}
	sent, f := entry.Accept(ctx, args)
	if f != nil {
		passed.Err = f
		return passed
	}
	passed.begun = true
	if e.o.Journal == nil || entry.Spec().Repeatable() {
		passed.Result, passed.Err = entry.Send(ctx, sent)
	} else {
		e.passRecorded(ctx, &passed, sent, caller)
	}
	return passed
}

// passRecorded makes a call with a run of its own.
func (e *Engine) passRecorded(ctx context.Context, passed *Passed, sent []byte, caller string) {
	entry, spec := passed.entry, passed.entry.Spec()
	l := &ledger.Ledger{Journal: e.o.Journal, Scope: e.o.Scope, Caller: caller}
	start := &journal.Start{Hash: func() string { return "" }, Text: []byte(plan.CallText(spec.Name, sent)), Steps: 1,
		Functions: []string{spec.Name}, Writes: true}
	if spec.Credential != "" {
		start.Credentials = []string{spec.Credential}
	}
	if f := l.Begin(start); f != nil {
		passed.Err = f
		return
	}
	call := l.NewCall("0", entry, sent)
	l.Look(call, false, 0)
	keep := func(int) error { return nil } // it is the only call of its run
	var undo func([]byte) []byte
	if spec.Undo != nil {
		undo = func(raw []byte) []byte {
			return plan.DefaultUndo(entry, e.usableFunctions(ctx)).Call(context.WithoutCancel(ctx), &refs.Scope{}, raw)
		}
	}
	raw, ended, err := ledger.Send(ctx, entry, call, sent, keep, undo)
	passed.Result, passed.Err = raw, err
	if ended.Kind == "" {
		return
	}
	_ = call.End(&ended) // an error of the journal changes nothing: the caller learns the outcome directly
	if err != nil && l.Record.EndUnfinished(journal.Failed, fault.CodeOf(err), fault.Message(err)) == nil {
		passed.resumes = l.Record.ID()
	}
	l.Record.Answered(0, 0)
}

// usableFunctions returns the functions that the caller of a passed call may use, as far as they are known.
func (e *Engine) usableFunctions(ctx context.Context) *steps.Registry {
	if functions := steps.CallbacksOf(ctx).Functions; functions != nil {
		return functions
	}
	return e.o.Functions.Registry()
}

// AnswerFailure answers the failure of a passed call as Call would have: with its outcome, what it may have written, whether the caller may
// send it again, and how to resume it.
func (e *Engine) AnswerFailure(ctx context.Context, passed *Passed, caller *Caller) (a *Answer) {
	f := fault.From(passed.Err, "")
	if !passed.begun {
		return e.RefuseCall(ctx, passed.entry, []*fault.Error{f}, caller)
	}
	s := e.newRequest(caller)
	spec := passed.entry.Spec()
	s.single, s.form.Call = &plan.Call{Function: spec.Name}, true
	defer s.finish(ctx, KindRefuse, &a)
	ctx = s.observeBegin(ctx, KindRefuse, nil, 0)
	s.ledger.ResumeToken = passed.resumes
	done, cause := run.FailedCall(ctx, passed.entry, f, s.runOptions())
	c := s.content(cause)
	c.Result, c.Run = []byte("null"), done
	return s.answer(ctx, c)
}
