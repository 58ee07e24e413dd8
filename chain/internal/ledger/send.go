package ledger

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Send records that a call begins, and makes it. The event says how it ended, for the caller to complete and to record (journal.Call.End).
// undo says how the call is undone, from its result; nil: the source may say it, in as many bytes as keep accepts. If the beginning cannot
// be recorded, the call is not made, and the event is zero.
func Send(ctx context.Context, entry *steps.Entry, call *journal.Call, sent []byte, keep func(bytes int) error,
	undo func(raw []byte) []byte) (raw []byte, ended journal.Event, err error) {
	if err := call.Begin(); err != nil {
		return nil, journal.Event{}, Fault(err, call.Function+" was not called")
	}
	if key := call.IdempotencyKey(); key != "" {
		ctx, sent = withIdempotencyKey(ctx, entry.Spec().Idempotency, key, sent)
	}
	var reported atomic.Pointer[steps.Undo] // a call that was left behind may still report
	if call.Effect != "" && undo == nil {
		ctx = steps.WithUndo(ctx, func(u *steps.Undo) error {
			reported.Store(u)
			return keep(len(u.Args))
		})
	}
	if entry.Spec().State {
		ctx = withCommit(ctx, call, &reported, undo)
	}
	if raw, err = entry.Send(withTask(ctx, call), sent); call.Commits && fault.OutcomeOf(err) == fault.SentUnknown {
		raw, err = settle(call, err)
	}
	return raw, endEventOf(ctx, call, raw, err, reported.Load(), undo), err
}

// settle returns how a call that changes state has ended, whose function was cut off or has failed: the journal knows it.
func settle(call *journal.Call, err error) ([]byte, error) {
	settled := call.Settled()
	if settled != nil && settled.Outcome == fault.Applied {
		return settled.Result, nil
	}
	f := fault.From(err, "").Under("")
	if f.Outcome = fault.NotSent; settled != nil {
		f.Outcome = settled.Outcome
	}
	return nil, f
}

// withCommit lets a source of state record the end of a call in the transaction that changes state.
func withCommit(ctx context.Context, call *journal.Call, reported *atomic.Pointer[steps.Undo],
	undo func(raw []byte) []byte) context.Context {
	return journal.WithCommit(ctx, call, func(raw []byte, err error) journal.Event {
		return endEventOf(ctx, call, raw, err, reported.Load(), undo)
	})
}

// endEventOf returns the event of a call's end. reported is what its source said of its undo; nil: nothing.
func endEventOf(ctx context.Context, call *journal.Call, raw []byte, err error, reported *steps.Undo,
	undo func(raw []byte) []byte) journal.Event {
	e := journal.Event{Kind: journal.Ended, Result: raw, Blocks: blocksOf(ctx, raw), Code: fault.CodeOf(err), Message: reasonOf(err)}
	if call.Effect != "" {
		e.Outcome = fault.OutcomeOf(err)
	}
	switch {
	case e.Outcome != fault.Applied:
	case undo != nil:
		e.Undo = undo(raw)
	case reported != nil:
		e.Undo = undoText(reported)
	}
	return e
}

// blocksOf returns the blocks of a call's result.
func blocksOf(ctx context.Context, raw []byte) (list []journal.Block) {
	for _, b := range steps.CallbacksOf(ctx).Blocks.Within(raw) {
		list = append(list, journal.Block{Handle: b.Handle, Type: b.Type, URI: b.URI, MIME: b.MIME, Bytes: b.Bytes})
	}
	return list
}

// RestoreBlocks adds the blocks in the result of an earlier call to those of the run. An error says that there is no memory for them.
func RestoreBlocks(to *steps.Blocks, earlier *journal.PastCall) error {
	to.Lose(earlier.Result)
	for i := range earlier.Blocks {
		b := &earlier.Blocks[i]
		kept := steps.KeptBlock{Handle: b.Handle, Block: steps.Block{Type: b.Type, URI: b.URI, MIME: b.MIME, Bytes: b.Bytes}}
		if err := to.Restore(&kept); err != nil {
			return err
		}
	}
	return nil
}

// undoText returns the call that undoes another, as the journal keeps it.
func undoText(u *steps.Undo) []byte {
	w := &rawjson.Writer{B: []byte{'{'}}
	w.Text("fn", u.Function)
	w.Raw("args", u.Args)
	if u.Version > 0 {
		w.Int("version", u.Version)
	}
	if len(u.Labels) > 0 {
		w.Text("labels", steps.LabelsText(u.Labels))
	}
	w.Close('}')
	return w.B
}

// NewCall returns a call of a function, as the journal records it.
func (l *Ledger) NewCall(path string, entry *steps.Entry, sent []byte) *journal.Call {
	spec := entry.Spec()
	c := &journal.Call{StepPath: path, Function: spec.Name, Args: sent, EffectAssumed: !spec.EffectDeclared, Shown: l.Shown(entry, sent)}
	if spec.Effect != steps.Read {
		c.Effect, c.Commits, c.Renews = spec.Effect.String(), spec.State, spec.Renews
		if key := spec.Idempotency; key != nil {
			c.KeyFor = cmp.Or(key.TTL, -1) // no TTL: forever
		}
	} else if spec.ChainOnly && l.Rights != nil { // what serves other steps may give each caller what is its own, as result.get does
		c.Rights = l.Rights.Text()
	}
	return c
}

// withTask lets a source that carries out a write as a task report it, or ask for the task of an earlier attempt.
func withTask(ctx context.Context, c *journal.Call) context.Context {
	if c.Effect == "" { // a resume reads again
		return ctx
	}
	return steps.WithTask(ctx, &steps.Task{Known: c.Task(), Report: c.ReportTask})
}

// withIdempotencyKey adds the key to a call, in the way that its function takes it.
func withIdempotencyKey(ctx context.Context, how *steps.Idempotency, key string, args []byte) (context.Context, []byte) {
	if how.Header != "" {
		return steps.WithIdempotencyKey(ctx, how.Header, key), args
	}
	list := rawjson.NewTable(args)
	list.Set(how.Argument, string(rawjson.AppendQuote(nil, key)))
	return ctx, rawjson.AppendObject(nil, list.List)
}

// reasonOf returns why a call failed, with the HTTP status of its answer; "" if it did not fail.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	message := fault.Message(err)
	if f, coded := fault.As(err); coded && f.Status > 0 && !strings.Contains(message, strconv.Itoa(f.Status)) {
		message = "status " + strconv.Itoa(f.Status) + ": " + message
	}
	return message
}
