package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// answerPlan answers a dry run: what would run, in which order, and the bounds that hold whatever the functions answer.
// Signatures, then the list of steps are left out where the answer would not fit.
func (s *exchange) answerPlan(ctx context.Context, p *plan, r *request) *Answer {
	d := &draft{exchange: s, step: -1, index: -1, member: "plan"}
	hash, room := p.hash(r), d.wholeRoom()
	goesOn, f := s.foresee(ctx, p)
	if f != nil {
		return s.failure(ctx, f)
	}
	for _, detail := range []planDetail{planSignatures, planSteps, planCounts} {
		w := &writer{}
		w.plan(p, hash, detail, s)
		w.goesOn(goesOn)
		w.close('}')
		if d.result = w.b; room.Fits(d.result) {
			break
		}
	}
	if s.lite {
		return d.bareAnswer(ctx)
	}
	return d.answer(ctx)
}

type planDetail int

const (
	planSignatures planDetail = iota
	planSteps
	planCounts
)

func (w *writer) plan(p *plan, hash string, detail planDetail, s *exchange) {
	w.open('{')
	w.text("hash", hash)
	if detail != planCounts {
		w.waves(p.waves())
		w.planSteps(s, p, detail)
	}
	counts := map[steps.Effect]int{}
	p.count(counts)
	w.int("reads", int64(counts[steps.Read]))
	w.int("writes", int64(counts[steps.Write]))
	w.int("destroys", int64(counts[steps.Destroy]))
	w.key("bound")
	w.b = append(w.b, '{')
	w.int("calls", min(p.mostCalls(s.o.MaxElements), int64(p.maxCalls)))
	if limit := s.meter.Limit(); limit > 0 {
		w.int("tokens", int64(limit))
	}
	if p.maxDuration < noMaxDuration {
		w.int("ms", p.maxDuration.Milliseconds())
	}
	w.close('}')
}

// foreseen is what a resume would do, as far as it can be known without a call.
type foreseen struct {
	reused, made []int // steps of the outermost chain
	conflicts    []*journal.PastCall
}

// foresee follows the plan through what the run has done that it would go on with; nil: there is none.
func (s *exchange) foresee(ctx context.Context, p *plan) (*foreseen, *fault.Error) {
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
	seen := &foreseen{conflicts: append(own.record.Unmatched(), r.doubts...)}
	for i := range r.steps {
		switch step := &r.steps[i]; {
		case step.reused > 0 && !step.pending:
			seen.reused = append(seen.reused, i)
		case step.status == statusSkipped && step.reason == reasonWhen, p.steps[i].expr != nil && !step.pending && step.status == statusOK:
		default:
			seen.made = append(seen.made, i)
		}
	}
	return seen, nil
}

// goesOn tells which steps of a resume would take all their results from the journal, which would call something, and which calls that
// were made are none of the chain.
func (w *writer) goesOn(seen *foreseen) {
	if seen == nil {
		return
	}
	w.key("resume")
	w.b = append(w.b, '{')
	w.ints("reused", seen.reused)
	w.ints("made", seen.made)
	w.pastCalls("conflicts", seen.conflicts)
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

func (w *writer) planSteps(x *exchange, p *plan, detail planDetail) {
	w.key("steps")
	w.b = append(w.b, '[')
	for i, s := range p.steps {
		w.open('{')
		w.step(i, s.id)
		if name := s.name(); name != "" {
			w.text("fn", name)
		}
		w.text("effect", s.effect.String())
		if s.fn != nil && x.mustApprove(s) {
			w.bool("approve", true)
		}
		if s.undo != nil {
			w.raw("undo", s.undo.text)
		}
		if s.callee() != nil && detail == planSignatures {
			w.text("signature", s.callee().Signature())
		}
		if s.inline != nil {
			w.key("chain")
			w.b = append(w.b, '{')
			w.waves(s.inline.waves())
			w.planSteps(x, s.inline, detail)
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
