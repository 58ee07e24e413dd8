package chain

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// beginRecord begins to record what the plan does, in the engine's journal. If the engine has none and the run needs one, the run gets a
// journal of its own in memory. A single call that is safe to repeat and needs no approval is not recorded.
func (s *requestState) beginRecord(p *plan.Plan, r *plan.Request) *fault.Error {
	needsApproval := p.NeedsApproval()
	switch {
	case s.o.Journal == nil && needsApproval:
		return fault.New(fault.Denied,
			"the chain has calls that need approval, and there is no journal to keep them in: the configuration says journal: {store: off}")
	case s.o.Journal == nil && !p.NeedsRecord():
		return nil
	case s.single != nil && p.Steps[0].Repeatable && !needsApproval:
		return nil
	case s.o.Journal == nil:
		private, err := journal.New(&journal.Memory{}, nil)
		if err != nil {
			return journalFault(err, "nothing was run")
		}
		s.privateJournal = private
	}
	effect, _ := p.Effect()
	key := ""
	if r.Key != nil {
		key = *r.Key
	}
	start := &journal.Start{Caller: s.caller, Scope: s.o.Scope, Key: key, Parent: s.parent, Chain: s.runName(p, r),
		Hash: func() string { return p.Hash(r) }, Text: s.effectiveText(p, r), Steps: len(p.Steps),
		Functions: p.FunctionNames(), Writes: effect != steps.Read || needsApproval || s.mayBeSuspended(p), Lookup: p.Undoes(),
		KeepResults: needsApproval, Canonical: canonical}
	if s.leasedRun == nil {
		s.record = cmp.Or(s.o.Journal, s.privateJournal).Begin(start)
		return s.claimKey(key)
	}
	record := s.o.Journal.Resume(s.leasedRun, start)
	if f := s.applyResumption(record); f != nil {
		return f // nothing was written, and the run is released
	}
	s.record, s.leasedRun = record, nil
	return nil
}

// runName returns the name of the run's chain, or "".
func (s *requestState) runName(p *plan.Plan, r *plan.Request) string {
	return cmp.Or(r.Name, s.chainName, p.SavedName())
}

// claimKey makes the run's key refer to this run.
func (s *requestState) claimKey(key string) *fault.Error {
	if key == "" {
		return nil
	}
	err := s.record.Claim()
	if err == nil {
		return nil
	}
	s.record = nil
	if errors.Is(err, journal.ErrTaken) {
		return fault.New(fault.Busy, "another run with this key is in progress: try again when it has ended").Under("/key")
	}
	return journalFault(err, "nothing was run")
}

// applyResumption records what the request says about earlier calls of the run: their outcomes, or an approval.
func (s *requestState) applyResumption(record *journal.Run) *fault.Error {
	if f := applyAssumptions(record, s.resumption.assume); f != nil {
		return f
	}
	if s.resumption.approve != "" {
		return s.applyApproval(record)
	}
	return nil
}

// effectiveText returns the chain as it runs: with the input that the front end set.
func (s *requestState) effectiveText(p *plan.Plan, r *plan.Request) []byte {
	if s.override.Input == nil && s.override.Set == nil {
		return []byte(r.Text)
	}
	all := rawjson.NewTable([]byte(r.Text))
	all.Set("input", string(p.Input))
	return rawjson.AppendObject(nil, all.List)
}

// canonical returns the canonical form of arguments, which is the same for equal arguments. Arguments with duplicate keys have none and are
// compared as they are.
func canonical(args []byte) []byte {
	if text, err := rawjson.AppendCanonical(make([]byte, 0, len(args)), args); err == nil {
		return text
	}
	return args
}

// journalFault is the fault for a journal that could not be read or written. consequence says what was not done because of it.
func journalFault(err error, consequence string) *fault.Error {
	var f *fault.Error
	switch {
	case errors.Is(err, journal.ErrTaken):
		f = fault.New(fault.Busy, "%s: another process has taken over this run and continues it", consequence)
	case errors.Is(err, context.Canceled):
		f = fault.New(fault.Cancelled, "%s: the request was cancelled", consequence)
	case errors.Is(err, journal.ErrUnreadable):
		f = fault.New(fault.Unreadable, "%s: %s", consequence, fault.Message(err))
	default:
		cause := err.Error()
		if coded, ok := fault.As(err); ok {
			cause = coded.Message
		}
		f = fault.New(fault.Unavailable, "%s, as the journal cannot be used: %s", consequence, cause)
	}
	f.Err, f.Outcome = err, fault.NotSent
	return f
}

// lookUp looks for a call in the journal and, if needed, waits for its approval. settled: the call must not be made now, and raw or f takes
// the place of its result.
func (r *run) lookUp(ctx context.Context, p *plan.Step, sent []byte, scope *refs.Scope, s *stepRun) (raw []byte, f *fault.Error,
	settled bool) {
	if s.call == nil {
		s.call = &journal.Call{StepPath: s.stepPath(p), Function: p.Name(), Args: sent, EffectAssumed: !p.Fn.Spec().EffectDeclared}
		if p.Effect != steps.Read {
			s.call.Effect = p.Effect.String()
		}
		if key := p.Fn.Spec().Idempotency; key != nil && p.Effect != steps.Read {
			s.call.KeyFor = cmp.Or(key.TTL, -1) // no TTL: forever
		}
		s.call.Shown = shownArguments(r.record, p.Fn, sent)
		r.record.Prepare(s.call)
		s.Recorded = s.call
		if raw, f, settled := r.recall(ctx, p, s); settled {
			if s.earlierAttempts > 0 { // the call is tried again: an approval that it has used remains valid
				s.call.Approval = r.usedApproval(ctx, p, scope, s)
			}
			return raw, f, true
		}
	}
	if s.call.Approval == "" && s.call.Task() != "" && s.call.Previous() != nil { // nothing is sent that was not approved
		s.call.Approval = r.usedApproval(ctx, p, scope, s)
	}
	if s.call.Approval == "" {
		if f := r.awaitApproval(ctx, p, scope, s); f != nil {
			return nil, f, true
		}
	}
	return r.stopIfRehearsal(s)
}

// shownArguments returns arguments as people see them, if the journal stores them.
func shownArguments(record *journal.Run, fn *steps.Entry, sent []byte) []byte {
	if !record.StoresValues() {
		return nil
	}
	return fn.Shown(sent)
}

// stepPath returns the path of a call, in the form that the answer's member writes has.
func (s *stepRun) stepPath(p *plan.Step) string {
	if s.frame == nil && s.Index < 0 {
		return itoa(p.Number)
	}
	return facts.FormatPath(append(s.frame.path(), p.Number, s.Index))
}

// send makes a call and records its start and end.
func (r *run) send(ctx context.Context, p *plan.Step, sent []byte, scope *refs.Scope, s *stepRun) ([]byte, *fault.Error) {
	if s.call == nil {
		raw, err := p.Fn.Send(ctx, sent)
		if err != nil {
			return nil, fault.From(err, "")
		}
		return raw, nil
	}
	if err := s.call.Begin(); err != nil {
		return nil, journalFault(err, p.Name()+" was not called")
	}
	if key := s.call.IdempotencyKey(); key != "" {
		ctx, sent = withIdempotencyKey(ctx, p.Fn.Spec().Idempotency, key, sent)
	}
	raw, err := p.Fn.Send(withTask(ctx, s.call), sent)
	r.recordEnd(ctx, p, scope, s.call, raw, err)
	if err != nil {
		return nil, fault.From(err, "")
	}
	return raw, nil
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

// recordEnd records how a call ended. If that fails for a write, no further step starts.
func (r *run) recordEnd(ctx context.Context, p *plan.Step, scope *refs.Scope, c *journal.Call, raw []byte, err error) {
	e := journal.Event{Result: raw, Code: fault.CodeOf(err), Message: reasonOf(err)}
	if c.Effect != "" {
		if e.Outcome = fault.OutcomeOf(err); e.Outcome == fault.Applied {
			e.Undo = r.undoOf(context.WithoutCancel(ctx), p, scope, raw)
		}
	}
	if c.End(&e) != nil {
		r.journalFailed.Store(true)
	}
}

// reasonOf returns why a call failed, with the HTTP status of its answer; "" if it did not fail.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	message := fault.Message(err)
	if f, coded := fault.As(err); coded && f.Status > 0 && !strings.Contains(message, itoa(f.Status)) {
		message = "status " + itoa(f.Status) + ": " + message
	}
	return message
}

// recall returns what the journal knows of a call. settled: the call must not be made now. A new write is a conflict if the chain no longer
// contains every write that the run has made (see checkConflict).
func (r *run) recall(ctx context.Context, p *plan.Step, s *stepRun) (raw []byte, f *fault.Error, settled bool) {
	past := r.record.Past()
	if past == nil {
		return nil, nil, false
	}
	previous := s.call.Previous()
	switch {
	case previous != nil && previous.Defaulted && r.record.WroteAfter(previous):
		return r.reuse(p, s, previous) // later writes may depend on the value of orElse
	case p.Effect == steps.Read:
		if previous != nil && previous.Code == "" && previous.Result != nil {
			return r.reuse(p, s, previous)
		}
		if raw := r.siblingResult(s.call); raw != nil {
			return raw, nil, true
		}
	case previous == nil: // a new call
	case previous.UndoUnknown:
		return r.unknownCall(p, s, previous)
	case previous.Outcome == fault.Applied:
		return r.reuse(p, s, previous)
	case previous.Outcome == fault.SentUnknown && !p.Repeatable && !previous.KeyHolds() && previous.Task() == "": // it must not be done twice
		return r.unknownCall(p, s, previous)
	}
	if p.Effect != steps.Read {
		if f := r.checkConflict(ctx, p); f != nil {
			return nil, f, true
		}
	}
	if previous != nil && previous.Outcome == fault.SentUnknown {
		s.call.MatchPrevious(false)
	}
	if r.awaitsRetry(p, previous) {
		s.earlierAttempts, s.LastCall = s.call.ContinueAttempts(), previous.EndedAt()
		f := fault.New(previous.Code, "%s ended with %s before the run was resumed, and is tried again", p.Name(), previous.Code).Under(p.At)
		f.Outcome = previous.Outcome
		return nil, f, true
	}
	return nil, nil, false
}

// usedApproval returns the name of the approval that an earlier attempt at a call has used up, if it covers the call as it is now; "": it
// does not.
func (r *run) usedApproval(ctx context.Context, p *plan.Step, scope *refs.Scope, s *stepRun) string {
	names := s.call.Previous().Approvals
	if len(names) == 0 || names[0] != r.approvalName(s.call, undoShown(ctx, p, scope)) {
		return ""
	}
	return names[0]
}

// siblingResult returns what another element of the same step has read by an equal call; nil: none. Which of two parallel elements made
// such a call first is chance, so a rehearsal accepts the result of either.
func (r *run) siblingResult(c *journal.Call) []byte {
	if !r.rehearsal {
		return nil
	}
	for _, earlier := range r.record.EqualCalls(c) {
		if earlier.Code == "" && earlier.Result != nil && sameStep(earlier.StepPath, c.StepPath) {
			return earlier.Result
		}
	}
	return nil
}

// sameStep reports whether two paths are of the same step, whatever their elements.
func sameStep(a, b string) bool {
	first, second := facts.ParsePath(a), facts.ParsePath(b)
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

// unknownEarlier returns sent_unknown if the run was resumed and it is not known how this call ended before the resume, otherwise "". If
// the call is refused now, that says nothing about the earlier attempt.
func (s *stepRun) unknownEarlier() fault.Outcome {
	if s.call != nil {
		if previous := s.call.Previous(); previous != nil && previous.Outcome == fault.SentUnknown && previous.Task() == "" {
			return previous.Outcome
		}
	}
	return ""
}

// stopIfRehearsal marks a call as pending in a rehearsal, which calls nothing and goes on with the other steps.
func (r *run) stopIfRehearsal(s *stepRun) (raw []byte, f *fault.Error, settled bool) {
	if !r.rehearsal {
		return nil, nil, false
	}
	s.Pending = true
	return nil, errPending, true
}

// errPending takes the place of a result that a rehearsal does not have, because it makes no calls.
var errPending = fault.New(fault.Internal, "a rehearsal calls nothing")

// reuse returns the recorded result or failure of a call.
func (r *run) reuse(p *plan.Step, s *stepRun, previous *journal.PastCall) ([]byte, *fault.Error, bool) {
	s.call.MatchPrevious(true)
	s.Reused++
	s.LastCall = previous.EndedAt()
	switch {
	case previous.Result != nil:
		if f := r.memory.Hold(0); f != nil {
			return nil, f.Under(p.At), true
		}
		return previous.Result, nil, true
	case previous.Assumed:
		return null, nil, true
	}
	f := fault.New(previous.Code, "%s ended with %s before the run was resumed, and is not called again", p.Name(), previous.Code).Under(p.At)
	if previous.Code == "" {
		f = fault.New(fault.Internal, "%s succeeded before the run was resumed, but its result was not kept: give the result in assume",
			p.Name()).Under(p.At)
	}
	f.Outcome = previous.Outcome
	return nil, f, true
}

// now returns the time that expressions use: when the run began, however often it is resumed. Zero: the run is not recorded.
func (s *requestState) now() time.Time {
	if s.record == nil {
		return time.Time{}
	}
	return time.UnixMicro(s.record.Began().UnixMicro()) // in microseconds, as the journal stores it
}
