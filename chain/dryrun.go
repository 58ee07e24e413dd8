package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/internal/run"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// DryRun describes what a chain would run, in which order, and what that takes.
type DryRun struct {
	DryChain
	Hash   string               // identifies what the chain would do
	Counts map[steps.Effect]int // the number of steps that call a function, by its effect
	Bound  Bound
	Flows  []Flow         // what flow rules decide about the plan: who must approve, and what is only warned of
	Resume *ResumePreview // nil: the request resumes no run
}

// DryChain is a chain that would run: the outermost one, or an inline one.
type DryChain struct {
	Waves [][]int // steps that could run side by side, in order
	Steps []DryStep
}

// DryStep is a step that would run.
type DryStep struct {
	ID        string // "": none
	Function  string // "expr" for an expression; "" for an inline chain
	Effect    steps.Effect
	After     []int     // steps that must end before it starts
	Needs     []int     // those of After whose results it reads
	ForEach   bool      // it runs for each element of a list
	Approve   bool      // its calls need approval
	Undo      []byte    // {"fn","args"} of the call that undoes it; nil: none
	Signature string    // "": none
	Chain     *DryChain // its inline chain; nil: none
}

// answerPlan answers a dry run. If the answer does not fit, it omits the signatures, then the steps.
func (s *request) answerPlan(ctx context.Context, p *plan.Plan, r *plan.Request) *Answer {
	resume, f := s.previewResume(ctx, p)
	if f != nil {
		return s.failureAnswer(ctx, f)
	}
	dry := s.dryRun(ctx, p, r, resume)
	c := s.content(facts.NoStep(nil))
	c.Plan = true
	envelope := s.form.Envelope(true, s.warnings)
	for _, detail := range []planDetail{planSignatures, planSteps, planCounts} {
		w := &rawjson.Writer{}
		writePlan(w, dry, detail)
		if c.Result = w.B; envelope.Allows(c.Result) {
			break
		}
	}
	a := s.answer(ctx, c)
	a.Plan = dry
	return a
}

func (s *request) dryRun(ctx context.Context, p *plan.Plan, r *plan.Request, resume *ResumePreview) *DryRun {
	dry := &DryRun{DryChain: *s.dryChain(p), Hash: p.Hash(r), Counts: map[steps.Effect]int{}, Bound: *s.bound(ctx, p, resume), Resume: resume}
	p.CountEffects(dry.Counts)
	dry.Flows = flowsOf(p)
	return dry
}

func (s *request) dryChain(p *plan.Plan) *DryChain {
	c := &DryChain{Waves: p.Waves(), Steps: make([]DryStep, len(p.Steps))}
	for i, step := range p.Steps {
		dry := &c.Steps[i]
		*dry = DryStep{ID: step.ID, Function: step.Name(), Effect: step.Effect, After: step.After, Needs: step.Needs,
			ForEach: step.ForEach != nil, Approve: step.MustApprove()}
		if step.Undo != nil {
			dry.Undo = step.Undo.Text
		}
		if step.Callee() != nil {
			dry.Signature = step.Callee().Signature()
		}
		if step.Inline != nil {
			dry.Chain = s.dryChain(step.Inline)
		}
	}
	return c
}

// planDetail says how much an answer shows of a plan: all, all but the signatures, or neither steps nor waves.
type planDetail int

const (
	planSignatures planDetail = iota
	planSteps
	planCounts
)

func writePlan(w *rawjson.Writer, p *DryRun, detail planDetail) {
	w.Open('{')
	w.Text("hash", p.Hash)
	if detail != planCounts {
		writeDryChain(w, &p.DryChain, detail)
		writeFlows(w, p.Flows)
	}
	w.Int("reads", int64(p.Counts[steps.Read]))
	w.Int("writes", int64(p.Counts[steps.Write]))
	w.Int("destroys", int64(p.Counts[steps.Destroy]))
	writeBound(w, &p.Bound)
	writeResumePreview(w, p.Resume)
	w.Close('}')
}

// ResumePreview describes what a resume would do, as far as that can be known without making calls.
type ResumePreview struct {
	// Reused and Made are steps of the outermost chain: those whose calls are all in the journal, and those that would make calls.
	Reused, Made []int
	Partly       []PartlyReused      // the steps of Made with elements whose calls are all in the journal
	Conflicts    []*journal.PastCall // calls that the run has made and the chain does not contain

	elements map[int]int // by step: the elements of its forEach that make calls, if they are known
}

// PartlyReused is a step with a forEach of which a resume takes some elements from the journal.
type PartlyReused struct{ Step, Reused, Elements int }

// previewResume follows the plan through the recorded calls of the run to resume; nil: there is no such run.
func (s *request) previewResume(ctx context.Context, p *plan.Plan) (*ResumePreview, *fault.Error) {
	if s.ledger.Previewed() == nil {
		return nil, nil
	}
	preview := &ResumePreview{elements: map[int]int{}}
	s.state = s.ledger.Previewed().State
	followed, f := s.ledger.Preview()
	if f != nil {
		return nil, f
	}
	ended := run.Rehearse(ctx, p, s.runOptions(), followed).Facts().Steps
	preview.Conflicts = followed.Conflicting()
	for i := range ended {
		step := &ended[i]
		switch {
		case step.Reused > 0 && !step.Pending:
			preview.Reused = append(preview.Reused, i)
		case step.Status == facts.StatusSkipped && step.Reason == facts.ReasonWhen,
			step.IsExpr && !step.Pending && step.Status == facts.StatusOK:
			// It makes no call.
		default:
			preview.Made = append(preview.Made, i)
			if step.Kept > 0 && step.Kept < step.Count {
				preview.Partly = append(preview.Partly, PartlyReused{i, step.Kept, step.Count})
			}
		}
		if step.Count >= 0 {
			preview.elements[i] = step.Count - step.Kept
		}
	}
	return preview, nil
}

// writeResumePreview writes what a resume would do.
func writeResumePreview(w *rawjson.Writer, preview *ResumePreview) {
	if preview == nil {
		return
	}
	w.OpenMember("resume", '{')
	w.Ints("reused", preview.Reused)
	w.Ints("made", preview.Made)
	if len(preview.Partly) > 0 {
		w.OpenMember("partly", '[')
		for _, p := range preview.Partly {
			w.Open('{')
			w.Int("step", int64(p.Step))
			w.Int("reused", int64(p.Reused))
			w.Int("elements", int64(p.Elements))
			w.Close('}')
		}
		w.Close(']')
	}
	ledger.WritePastCalls(w, "conflicts", preview.Conflicts)
	w.Close('}')
}

func writeDryChain(w *rawjson.Writer, c *DryChain, detail planDetail) {
	w.OpenMember("waves", '[')
	for _, wave := range c.Waves {
		w.IntArray(wave)
	}
	w.Close(']')
	w.OpenMember("steps", '[')
	for i := range c.Steps {
		s := &c.Steps[i]
		w.Open('{')
		answer.WriteStep(w, i, s.ID)
		if s.Function != "" {
			w.Text("fn", s.Function)
		}
		w.Text("effect", s.Effect.String())
		if s.Approve {
			w.Bool("approve", true)
		}
		if s.Undo != nil {
			w.Raw("undo", s.Undo)
		}
		if s.Signature != "" && detail == planSignatures {
			w.Text("signature", s.Signature)
		}
		if s.Chain != nil {
			w.OpenMember("chain", '{')
			writeDryChain(w, s.Chain, detail)
			w.Close('}')
		}
		w.Close('}')
	}
	w.Close(']')
}
