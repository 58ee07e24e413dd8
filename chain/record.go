package chain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// remember has what the plan does written in the journal, if there is one. A single call that is safe to repeat is no run.
func (s *exchange) remember(p *plan, r *request) *fault.Error {
	asks := s.asks(p)
	switch {
	case s.o.Journal == nil && asks:
		return fault.New(fault.Denied, "the chain has calls that need approval, and there is no journal to keep them in: the configuration says journal: {store: off}")
	case s.o.Journal == nil && !p.recalls(), s.single != nil && p.steps[0].repeatable && !asks:
		return nil
	case s.o.Journal == nil:
		own, err := journal.New(&journal.Memory{}, nil)
		if err != nil {
			return unwritten(err, "nothing was run")
		}
		s.own = own
	}
	effect, _ := p.effect()
	key := ""
	if r.Key != nil {
		key = *r.Key
	}
	start := &journal.Start{Caller: s.owner, Scope: s.o.Scope, Key: key, Chain: cmp.Or(r.Name, s.chain, p.savedAlone()), Hash: func() string { return p.hash(r) }, Text: s.effective(p, r), Steps: len(p.steps),
		Functions: p.functionNames(), Writes: effect != steps.Read, Index: p.undoes(), Recall: asks, Canonical: canonical}
	if s.taken == nil {
		s.record = cmp.Or(s.o.Journal, s.own).Begin(start)
		return s.claim(key)
	}
	record := s.o.Journal.Resume(s.taken, start)
	if f := s.heed(record); f != nil {
		return f // nothing of it was written, and the run is given back
	}
	s.record, s.taken = record, nil
	return nil
}

// claim has the run's key mean this run.
func (s *exchange) claim(key string) *fault.Error {
	if key == "" {
		return nil
	}
	err := s.record.Claim()
	if err == nil {
		return nil
	}
	s.record = nil
	if errors.Is(err, journal.ErrTaken) {
		return fault.New(fault.Busy, "a run with this key has begun at the same time: ask again when it has ended").Under("/key")
	}
	return unwritten(err, "nothing was run")
}

// heed takes what the request says of calls of an earlier part of the run.
func (s *exchange) heed(record *journal.Run) *fault.Error {
	if f := assume(record, s.said.assume); f != nil {
		return f
	}
	if s.said.approve != "" {
		return s.approve(record)
	}
	return nil
}

// recalls reports whether the run needs to know what it has done while it runs, as its failure undoes that or its calls have idempotency
// keys: without a journal it has one of its own.
func (p *plan) recalls() bool {
	return p.undoes() || slices.ContainsFunc(p.functions(nil), func(e *steps.Entry) bool { return e.Spec().Idempotency != nil })
}

// effective is the chain as it runs: with the input that was set over it.
func (s *exchange) effective(p *plan, r *request) []byte {
	if s.override.Input == nil && s.override.Set == nil {
		return []byte(r.text)
	}
	all := newTable([]byte(r.text))
	all.set("input", string(p.input))
	return appendObject(nil, all.list)
}

func (p *plan) functionNames() []string {
	entries := p.functions(nil)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Spec().Name
	}
	return names
}

// canonical is the spelling that equal arguments share; what has none, as a key stands twice in it, is compared as it is.
func canonical(args []byte) []byte {
	if text, err := rawjson.AppendCanonical(make([]byte, 0, len(args)), args); err == nil {
		return text
	}
	return args
}

// unwritten is the fault for a journal that could not be read or written.
func unwritten(err error, what string) *fault.Error {
	why := err.Error()
	if coded, ok := fault.As(err); ok {
		why = coded.Message
	}
	f := fault.New(fault.Unavailable, "%s, as the journal cannot be written: %s", what, why)
	if errors.Is(err, journal.ErrTaken) {
		f = fault.New(fault.Busy, "%s: somebody else has taken this run over, and goes on with it", what)
	}
	f.Err, f.Outcome = err, fault.NotSent
	return f
}

// look finds what the journal knows of a call, and whether it has been approved if it has to be; known: it is not to be made.
func (r *run) look(ctx context.Context, p *plannedStep, sent []byte, scope *refs.Scope, s *stepRun) (raw []byte, f *fault.Error, known bool) {
	if s.call == nil {
		s.call = &journal.Call{Place: s.place(p), Function: p.name(), Args: sent, Guessed: !p.fn.Spec().EffectDeclared}
		if p.effect != steps.Read {
			s.call.Effect = p.effect.String()
		}
		if key := p.fn.Spec().Idempotency; key != nil && p.effect != steps.Read {
			s.call.KeyFor = cmp.Or(key.TTL, -1)
		}
		s.call.Shown = shownArguments(r.record, p.fn, sent)
		r.record.Prepare(s.call)
		if raw, f, known := r.recall(ctx, p, s); known {
			return raw, f, true
		}
	}
	if p.effect != steps.Read && s.call.Approval == "" {
		if f := r.approved(ctx, p, scope, s); f != nil {
			return nil, f, true
		}
	}
	return r.pending(s)
}

// shownArguments are arguments as they may be shown later, if the journal keeps them for that.
func shownArguments(record *journal.Run, fn *steps.Entry, sent []byte) []byte {
	if !record.Values() {
		return nil
	}
	return fn.Shown(sent)
}

// place is that of a call, as writes names it.
func (s *stepRun) place(p *plannedStep) string {
	if s.within == nil && s.index < 0 {
		return itoa(p.number)
	}
	return placeOf(append(s.within.path(), p.number, s.index))
}

// send makes a call, its journal told before and after.
func (r *run) send(ctx context.Context, p *plannedStep, sent []byte, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	if s.call == nil {
		raw, err := p.fn.Send(ctx, sent)
		if err != nil {
			return nil, coded(err, "")
		}
		return raw, nil
	}
	if err := s.call.Begin(); err != nil {
		return nil, unwritten(err, p.name()+" was not called")
	}
	if key := s.call.IdempotencyKey(); key != "" {
		ctx, sent = withIdempotencyKey(ctx, p.fn.Spec().Idempotency, key, sent)
	}
	raw, err := p.fn.Send(ctx, sent)
	r.tellEnd(ctx, p, scope, s.call, raw, err)
	if err != nil {
		return nil, coded(err, "")
	}
	return raw, nil
}

// withIdempotencyKey gives a call its key, as its function takes it.
func withIdempotencyKey(ctx context.Context, how *steps.Idempotency, key string, args []byte) (context.Context, []byte) {
	if how.Header != "" {
		return steps.WithIdempotencyKey(ctx, how.Header, key), args
	}
	list := newTable(args)
	list.set(how.Argument, string(appendString(nil, key)))
	return ctx, appendObject(nil, list.list)
}

// tellEnd tells the journal how a call ended. If it cannot be told of one that wrote, no further step starts.
func (r *run) tellEnd(ctx context.Context, p *plannedStep, scope *refs.Scope, c *journal.Call, raw []byte, err error) {
	e := journal.Event{Result: raw, Code: fault.CodeOf(err)}
	if c.Effect != "" {
		if e.Outcome = fault.OutcomeOf(err); e.Outcome == fault.Applied {
			e.Undo = r.undoOf(context.WithoutCancel(ctx), p, scope, raw)
		}
	}
	if c.End(&e) != nil {
		r.unwritten.Store(true)
	}
}

// recall gives what the journal knows of a call; known: the call is not to be made. A call that may change what an earlier part
// of the run has done is a conflict.
func (r *run) recall(ctx context.Context, p *plannedStep, s *stepRun) (raw []byte, f *fault.Error, known bool) {
	past := r.record.Past()
	if past == nil {
		return nil, nil, false
	}
	was := s.call.Previous()
	switch {
	case was != nil && was.StoodIn && r.record.WroteAfter(was):
		return r.reuse(p, s, was)
	case p.effect == steps.Read:
		if was != nil && was.Code == "" && was.Result != nil {
			return r.reuse(p, s, was)
		}
		if raw := r.readBeside(s.call); raw != nil {
			return raw, nil, true
		}
	case was == nil:
	case was.Unsure:
		return r.doubted(p, s, was)
	case was.Outcome == fault.Applied:
		return r.reuse(p, s, was)
	case was.Outcome == fault.SentUnknown:
		if !p.repeatable && !was.KeyHolds() {
			return r.doubted(p, s, was)
		}
	}
	if p.effect != steps.Read {
		if f := r.conflict(ctx, p); f != nil {
			return nil, f, true
		}
	}
	if was != nil && was.Outcome == fault.SentUnknown {
		s.call.Take(false)
	}
	return nil, nil, false
}

// readBeside is what another element of the same step has read by an equal call; nil: none has. Which of the elements that ran side by side made
// the first of such calls is chance: a rehearsal comes as far as the run has come by the result of either.
func (r *run) readBeside(c *journal.Call) []byte {
	if !r.rehearsal {
		return nil
	}
	for _, other := range r.record.Equals(c) {
		if other.Code == "" && other.Result != nil && sameStep(other.Place, c.Place) {
			return other.Result
		}
	}
	return nil
}

// sameStep reports whether two places are of one step, of whichever elements.
func sameStep(a, b string) bool {
	first, second := stepsOf(a), stepsOf(b)
	if len(first) != len(second) {
		return false
	}
	for i := 0; i < len(first); i += 2 {
		if first[i] != second[i] {
			return false
		}
	}
	return true
}

// unknownBefore is sent_unknown of a call of which an earlier part of the run cannot say whether it was done: that it was refused now does
// not tell. "": it can.
func (s *stepRun) unknownBefore() fault.Outcome {
	if s.call != nil {
		if was := s.call.Previous(); was != nil && was.Outcome == fault.SentUnknown {
			return was.Outcome
		}
	}
	return ""
}

// pending tells of a call that is to be made: a rehearsal ends there.
func (r *run) pending(s *stepRun) (raw []byte, f *fault.Error, known bool) {
	if !r.rehearsal {
		return nil, nil, false
	}
	s.pending = true
	return nil, errPending, true
}

// errPending stands, in a rehearsal, for the result of a call that was not made yet.
var errPending = fault.New(fault.Internal, "a rehearsal calls nothing")

// reuse gives what a call came to when it was made.
func (r *run) reuse(p *plannedStep, s *stepRun, was *journal.PastCall) ([]byte, *fault.Error, bool) {
	s.call.Take(true)
	s.reused++
	switch {
	case was.Result != nil:
		if f := r.hold(0); f != nil {
			return nil, f.Under(p.at), true
		}
		return was.Result, nil, true
	case was.Assumed:
		return null, nil, true
	}
	f := fault.New(was.Code, "%s has ended with %s before, and is not called again", p.name(), was.Code).Under(p.at)
	if was.Code == "" {
		f = fault.New(fault.Internal, "%s has succeeded before, and its result was not kept: give it by assume", p.name()).Under(p.at)
	}
	f.Outcome = was.Outcome
	return nil, f, true
}

// now is what expressions take for the time: that at which the run began, however often it is resumed. Zero: there is no run.
func (s *exchange) now() time.Time {
	if s.record == nil {
		return time.Time{}
	}
	return time.UnixMicro(s.record.Began().UnixMicro()) // as it is kept
}
