package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// DryRun is what would run, in which order, and the bounds that hold whatever the functions answer.
type DryRun struct {
	DryChain
	Hash        string // of all that decides what would be done
	Counts      map[steps.Effect]int
	MaxCalls    int64
	MaxTokens   int           // of the answer; 0: no bound
	MaxDuration time.Duration // 0: no bound
	Resume      *Foreseen     // nil: no earlier run would go on
}

// DryChain is a chain that would run: the outermost one, or that of a step.
type DryChain struct {
	Waves [][]int // the steps that could run side by side, in their order
	Steps []DryStep
}

// DryStep is a step that would run.
type DryStep struct {
	ID        string // "": it has none
	Function  string // "expr" for an expression; "" for an inline chain
	Effect    steps.Effect
	After     []int     // the steps that have to end before it starts
	Approve   bool      // its calls need approval
	Undo      []byte    // {"fn","args"} that takes its call back; nil: nothing does
	Signature string    // "": it has none
	Chain     *DryChain // that it runs; nil: it calls a function, or computes
}

// answerPlan answers a dry run. Signatures, then the list of steps are left out where the answer would not fit.
func (s *exchange) answerPlan(ctx context.Context, p *plan, r *request) *Answer {
	d := &draft{exchange: s, step: -1, index: -1, member: "plan"}
	room := d.wholeRoom()
	resume, f := s.foresee(ctx, p)
	if f != nil {
		return s.failure(ctx, f)
	}
	dry := s.dryRun(p, r)
	dry.Resume = resume
	for _, detail := range []planDetail{planSignatures, planSteps, planCounts} {
		w := &writer{}
		w.plan(dry, detail)
		if d.result = w.b; room.Fits(d.result) {
			break
		}
	}
	answer := d.answer
	if s.lite {
		answer = d.bareAnswer
	}
	a := answer(ctx)
	a.Plan = dry
	return a
}

func (s *exchange) dryRun(p *plan, r *request) *DryRun {
	dry := &DryRun{DryChain: *s.dryChain(p), Hash: p.hash(r), Counts: map[steps.Effect]int{}, MaxTokens: s.meter.Limit(),
		MaxCalls: min(p.mostCalls(s.o.MaxElements), int64(p.maxCalls))}
	p.count(dry.Counts)
	if p.maxDuration < noMaxDuration {
		dry.MaxDuration = p.maxDuration
	}
	return dry
}

func (s *exchange) dryChain(p *plan) *DryChain {
	c := &DryChain{Waves: p.waves(), Steps: make([]DryStep, len(p.steps))}
	for i, step := range p.steps {
		dry := &c.Steps[i]
		*dry = DryStep{ID: step.id, Function: step.name(), Effect: step.effect, After: step.after, Approve: step.fn != nil && s.mustApprove(step)}
		if step.undo != nil {
			dry.Undo = step.undo.text
		}
		if step.callee() != nil {
			dry.Signature = step.callee().Signature()
		}
		if step.inline != nil {
			dry.Chain = s.dryChain(step.inline)
		}
	}
	return c
}

type planDetail int

const (
	planSignatures planDetail = iota
	planSteps
	planCounts
)

func (w *writer) plan(p *DryRun, detail planDetail) {
	w.open('{')
	w.text("hash", p.Hash)
	if detail != planCounts {
		w.dryChain(&p.DryChain, detail)
	}
	w.int("reads", int64(p.Counts[steps.Read]))
	w.int("writes", int64(p.Counts[steps.Write]))
	w.int("destroys", int64(p.Counts[steps.Destroy]))
	w.key("bound")
	w.b = append(w.b, '{')
	w.int("calls", p.MaxCalls)
	if p.MaxTokens > 0 {
		w.int("tokens", int64(p.MaxTokens))
	}
	if p.MaxDuration > 0 {
		w.int("ms", p.MaxDuration.Milliseconds())
	}
	w.close('}')
	w.goesOn(p.Resume)
	w.close('}')
}

// Foreseen is what a resume would do, as far as it can be known without a call.
type Foreseen struct {
	Reused, Made []int               // steps of the outermost chain: all their calls come from the journal; they would call something
	Conflicts    []*journal.PastCall // that the run has made, and the chain does not make
}

// foresee follows the plan through what the run has done that it would go on with; nil: there is none.
func (s *exchange) foresee(ctx context.Context, p *plan) (*Foreseen, *fault.Error) {
	if s.looked == nil {
		return nil, nil
	}
	record := s.o.Journal.Resume(s.looked, &journal.Start{Writes: true, Hash: func() string { return "" }, Canonical: canonical})
	if f := assume(record, s.said.assume); f != nil {
		return nil, f
	}
	own := s.shadow()
	own.record = record.Rehearse()
	defer own.release()
	r := own.rehearse(ctx, p)
	seen := &Foreseen{Conflicts: append(own.record.Unmatched(), r.doubts...)}
	for i := range r.steps {
		switch step := &r.steps[i]; {
		case step.reused > 0 && !step.pending:
			seen.Reused = append(seen.Reused, i)
		case step.status == statusSkipped && step.reason == reasonWhen, p.steps[i].expr != nil && !step.pending && step.status == statusOK:
		default:
			seen.Made = append(seen.Made, i)
		}
	}
	return seen, nil
}

// goesOn tells which steps of a resume would take all their results from the journal, which would call something, and which calls that
// were made are none of the chain.
func (w *writer) goesOn(seen *Foreseen) {
	if seen == nil {
		return
	}
	w.key("resume")
	w.b = append(w.b, '{')
	w.ints("reused", seen.Reused)
	w.ints("made", seen.Made)
	w.pastCalls("conflicts", seen.Conflicts)
	w.close('}')
}

func (w *writer) ints(name string, list []int) {
	w.key(name)
	w.b = append(w.b, '[')
	for _, n := range list {
		w.comma()
		w.b = append(w.b, itoa(n)...)
	}
	w.close(']')
}

func (w *writer) waves(waves [][]int) {
	w.key("waves")
	w.b = append(w.b, '[')
	for _, wave := range waves {
		w.open('[')
		for _, n := range wave {
			w.comma()
			w.b = append(w.b, itoa(n)...)
		}
		w.close(']')
	}
	w.close(']')
}

func (w *writer) dryChain(c *DryChain, detail planDetail) {
	w.waves(c.Waves)
	w.key("steps")
	w.b = append(w.b, '[')
	for i := range c.Steps {
		s := &c.Steps[i]
		w.open('{')
		w.step(i, s.ID)
		if s.Function != "" {
			w.text("fn", s.Function)
		}
		w.text("effect", s.Effect.String())
		if s.Approve {
			w.bool("approve", true)
		}
		if s.Undo != nil {
			w.raw("undo", s.Undo)
		}
		if s.Signature != "" && detail == planSignatures {
			w.text("signature", s.Signature)
		}
		if s.Chain != nil {
			w.key("chain")
			w.b = append(w.b, '{')
			w.dryChain(s.Chain, detail)
			w.close('}')
		}
		w.close('}')
	}
	w.close(']')
}

// count adds up the steps that call a function, by effect.
func (p *plan) count(counts map[steps.Effect]int) {
	for _, s := range p.steps {
		switch {
		case s.inline != nil:
			s.inline.count(counts)
		case s.fn != nil:
			counts[s.effect]++
		}
	}
}

// mostCalls is the most calls that the plan can make, were there no maxCalls.
func (p *plan) mostCalls(maxElements int) int64 {
	const enough = 1 << 40 // above any limit, and far from overflow
	var sum int64
	for _, s := range p.steps {
		calls := int64(1)
		switch {
		case s.inline != nil:
			calls = s.inline.mostCalls(maxElements)
		case s.expr != nil:
			calls = 0
		}
		calls = min(calls*int64(s.maxRounds)*int64(1+s.maxRetries), enough)
		if s.forEach != nil {
			calls = min(calls*int64(maxElements), enough)
		}
		sum = min(sum+calls, enough)
	}
	return sum
}

// hash identifies what a plan would do: its steps, the functions that they resolve to, its values and its order on
// errors. White space and the form of the answer do not change it.
func (p *plan) hash(r *request) string {
	text := make([]byte, 0, len(r.stepsRaw)+500)
	for _, part := range [][]byte{[]byte(r.stepsRaw), r.Return, r.Common, p.input, []byte(p.onError)} {
		text = append(strconv.AppendInt(text, int64(len(part)), 10), ':')
		text = append(text, part...)
	}
	p.writeNames(func(name string) { text = append(append(text, name...), '\n') })
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func (p *plan) writeNames(write func(string)) {
	for _, s := range p.steps {
		if s.saved != nil {
			write(string(s.saved.Spec().Saved.Text))
		}
		if s.inline != nil {
			s.inline.writeNames(write)
		} else {
			write(s.name())
		}
	}
}
