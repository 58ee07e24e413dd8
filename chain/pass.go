package chain

import (
	"cmp"
	"context"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Pass calls one function for a front end that passes its result on unchanged. There is no plan, no token budget and no Answer. caller is a
// Caller.ID. With a journal, a call that is not safe to repeat is recorded as a run of one step. Errors are those of steps.Entry.Call, and
// unavailable if the journal cannot be written; then nothing was sent. Calls that need approval (MustApprove) must not be passed.
func (e *Engine) Pass(ctx context.Context, entry *steps.Entry, args []byte, caller string) ([]byte, error) {
	spec := entry.Spec()
	if e.o.Journal == nil || spec.Repeatable() {
		return entry.Call(ctx, args)
	}
	sent, f := entry.Accept(ctx, args)
	if f != nil {
		return nil, f
	}
	single := &Call{Function: spec.Name}
	record := e.o.Journal.Begin(&journal.Start{Caller: caller, Scope: e.o.Scope, Hash: func() string { return "" },
		Text: []byte(single.text(sent)), Steps: 1, Functions: []string{spec.Name}, Writes: true, Canonical: canonical})
	call := &journal.Call{StepPath: "0", Function: spec.Name, Effect: spec.Effect.String(), EffectAssumed: !spec.EffectDeclared, Args: sent,
		Shown: shownArguments(record, entry, sent)}
	if key := spec.Idempotency; key != nil {
		call.KeyFor = cmp.Or(key.TTL, -1) // no TTL: forever
	}
	record.Prepare(call)
	if err := call.Begin(); err != nil {
		return nil, journalFault(err, spec.Name+" was not called")
	}
	if key := call.IdempotencyKey(); key != "" {
		ctx, sent = withIdempotencyKey(ctx, spec.Idempotency, key, sent)
	}
	raw, err := entry.Send(ctx, sent)
	// An error of the journal changes nothing: the caller learns the outcome directly.
	_ = call.End(&journal.Event{Result: raw, Code: fault.CodeOf(err), Outcome: fault.OutcomeOf(err)})
	if err != nil {
		_ = record.EndUnfinished(journal.Failed, fault.CodeOf(err)) // the caller learns the failure directly, too
	}
	record.Answered(0, 0)
	return raw, err
}
