package chain

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/internal/run"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// content returns what all answers of the request have, for this cause.
func (s *request) content(cause facts.Cause) *answer.Content {
	return &answer.Content{Cause: cause, Signatures: s.signatures, Warnings: s.warnings, UndoCalls: s.ledger.UndoCalls(),
		Resume: s.ledger.ResumeToken, Approve: s.ledger.ApproveToken, UndoneRun: s.ledger.UndoneRun}
}

// answer answers with this content. A success is only its result if the request asks for that.
func (s *request) answer(ctx context.Context, c *answer.Content) *Answer {
	s.labelKept(c.Cause.Err == nil)
	return s.answered(s.form.Write(ctx, c))
}

// answered returns the answer that was written, and tells the observer about it.
func (s *request) answered(w answer.Written) *Answer {
	s.answerTokens, s.keptTokens = w.Tokens, w.Kept
	if w.Misfit != nil {
		s.warn(w.Misfit)
	}
	if o := s.observation; o != nil {
		e := &o.result
		e.Tokens, e.Stored, e.Probe, e.Lean = w.Tokens, w.Stored, w.Probe, w.Lean
	}
	return &Answer{OK: w.Err == nil, JSON: w.JSON, Text: w.Text, Error: w.Err, Warnings: s.warnings, Warned: w.Warned, Blocks: w.Blocks,
		BlockTokens: w.BlockTokens, Labels: s.show(w.Err == nil)}
}

// failureAnswer answers an error that belongs to no step.
func (s *request) failureAnswer(ctx context.Context, f *fault.Error) *Answer {
	return s.answer(ctx, s.content(facts.NoStep(f)))
}

// report answers a run.
func (s *request) report(ctx context.Context, p *plan.Plan, r *run.Run) *Answer {
	if !r.SuspendedUntil().IsZero() {
		done := r.Facts()
		s.warn(done.Warnings...)
		return s.suspendedAnswer(ctx, r)
	}
	result, cause := r.Finish(ctx)
	done := r.Facts()
	s.warn(done.Warnings...)
	undoes := p.OnError == plan.OnErrorUndo && s.ledger.Record != nil && len(s.ledger.Waiting) == 0
	if undoes && cause.Err != nil && cause.Err.Code != fault.ResumeConflict {
		undone := s.ledger.UndoAll(ctx, r.Undoing(), "")
		cause.Err = undone.AddTo(cause.Err)
		s.ledger.EndUndone(undone, cause.Err.Code, cause.Err.Message)
	} else {
		s.ledger.EndUnfinished(cause.Err, journal.Failed)
	}
	s.keepBlocks(ctx, r, result, done)
	done.Compared = done.Compared && len(r.Blocks().Within(result)) == 0 // the handles of blocks are new each time
	c := s.content(cause)
	c.Result, c.Run, c.Blocks = result, done, r.Blocks()
	if s.answering != nil {
		s.answering()
	}
	a := s.answer(ctx, c)
	if s.allBlocks {
		a.Blocks = r.Blocks().Within(result)
	}
	a.Run, a.Defaulted, a.Unrepeatable = s.runID(), defaultedSteps(c.Run.Steps), c.Run.Unrepeatable
	return a
}

// suspendedAnswer answers a run that was suspended. No caller sees the answer if the run is resumed, so it has no result.
func (s *request) suspendedAnswer(ctx context.Context, r *run.Run) *Answer {
	s.ledger.Resumes = r.SuspendedUntil()
	f := fault.New(fault.Cancelled, "the chain pauses until %s, and continues when it is resumed", s.ledger.Resumes.UTC().Format(time.RFC3339))
	s.ledger.EndUnfinished(f, journal.Waiting)
	done := r.Facts()
	s.warn(done.Warnings...)
	c := s.content(facts.NoStep(f))
	c.Run = done
	a := s.answer(ctx, c)
	a.Run = s.runID()
	return a
}

// runID returns the id of the run that the journal records; "": it records none.
func (s *request) runID() string {
	if s.o.Journal == nil || s.ledger.Record == nil {
		return ""
	}
	return s.ledger.Record.ID()
}

func defaultedSteps(steps []facts.Step) (list []DefaultedStep) {
	for i := range steps {
		if s := &steps[i]; s.Defaulted > 0 {
			list = append(list, DefaultedStep{Step: i, ID: s.ID, Count: s.Defaulted, Elements: s.Count})
		}
	}
	return list
}

// refuse answers a request that does not compile.
func (s *request) refuse(ctx context.Context, text []byte, p *plan.Plan, faults *decode.Faults) *Answer {
	list := facts.SortFaults(faults.List)
	if len(list) >= plan.HeavySteps { // reporting this many is heavy work
		var slot admit.Slot
		_ = slot.Acquire(ctx) // if the caller has left, the answer is written all the same
		defer slot.Release()
	}
	if s.single != nil {
		return s.refuseCall(ctx, p, list, faults.More)
	}
	for i, f := range list {
		list[i] = s.form.Relocate(f)
	}
	plan.Locate(text, list)
	keepFirstCauses(list)
	n := len(list) + faults.More
	message := strconv.Itoa(n) + " faults"
	if n == 1 {
		message = "1 fault"
	}
	err := fault.New(fault.Compile, "%s", message)
	if later := plan.SourcesDownFault(list); later != nil && faults.More == 0 {
		err = later
	}
	c := s.content(facts.NoStep(err))
	c.Faults, c.MoreFaults = list, faults.More
	a := s.answer(ctx, c)
	a.Faults = list
	return a
}

// keepFirstCauses keeps the cause of an unavailable source only in the first fault with that cause.
func keepFirstCauses(list []*fault.Error) {
	seen := map[string]bool{}
	for i, f := range list {
		state, cause, hasCause := strings.Cut(f.Message, ": ")
		if f.Code != fault.Unavailable || !hasCause {
			continue
		}
		if seen[cause] {
			copied := *f
			copied.Message = state + "; the first fault of this source says why"
			list[i] = &copied
		}
		seen[cause] = true
	}
}

// checkAnswer answers a check without faults.
func (s *request) checkAnswer(ctx context.Context, text []byte, p *plan.Plan, r *plan.Request) *Answer {
	if s.single == nil {
		plan.Locate(text, s.warnings)
	}
	var dry *DryRun
	if s.override.Bounds {
		dry = s.dryRun(ctx, p, r, nil)
	}
	c := s.content(facts.NoStep(nil))
	if dry != nil {
		w := &rawjson.Writer{}
		writePlan(w, dry, planCounts)
		c.Plan, c.Result = true, w.B
	}
	a := s.answered(s.form.WriteStandard(context.Background(), c))
	a.Plan = dry
	a.Checked = &Checked{Steps: len(p.Steps), Counts: map[steps.Effect]int{}, Flows: flowsOf(p)}
	p.CountEffects(a.Checked.Counts)
	a.Checked.Uses = usesOf(p)
	return a
}

// Checked is the size of a plan that was checked, and what it uses.
type Checked struct {
	Steps  int                  // steps of the outermost chain
	Counts map[steps.Effect]int // how many steps, inline ones included, call functions of each effect
	Flows  []Flow               // what flow rules decide about the plan
	Uses   []FunctionUse        // what the plan uses of each function, inline chains included, sorted by name
}
