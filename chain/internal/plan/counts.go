package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/onecall-mcp/onecall/steps"
)

// CountEffects counts the steps that call a function, by effect.
func (p *Plan) CountEffects(counts map[steps.Effect]int) {
	for _, s := range p.Steps {
		switch {
		case s.Inline != nil:
			s.Inline.CountEffects(counts)
		case s.Fn != nil:
			counts[s.Effect]++
		}
	}
}

// MaxPossibleCalls returns the most calls that the plan could make if maxCalls did not limit them.
func (p *Plan) MaxPossibleCalls(maxElements int) int64 {
	var sum int64
	for _, s := range p.Steps {
		sum = min(sum+s.maxPossibleCalls(maxElements, maxElements), maxSum)
	}
	return sum
}

const maxSum = 1 << 40 // above any limit, and far from overflow

// MaxRemainingCalls is maxPossibleCalls for a resume, which makes calls in the steps made alone. elements are those of the steps' forEach
// that make calls, by step, as far as they are known.
func (p *Plan) MaxRemainingCalls(made []int, elements map[int]int, maxElements int) int64 {
	var sum int64
	for _, i := range made {
		elements, known := elements[i]
		if !known {
			elements = maxElements
		}
		sum = min(sum+p.Steps[i].maxPossibleCalls(elements, maxElements), maxSum)
	}
	return sum
}

// maxPossibleCalls returns the most calls of a step whose forEach, if any, has that many elements. maxElements is for those of inline
// steps.
func (s *Step) maxPossibleCalls(elements, maxElements int) int64 {
	calls := int64(1)
	switch {
	case s.Inline != nil:
		calls = s.Inline.MaxPossibleCalls(maxElements)
	case s.Expr != nil:
		calls = 0
	}
	calls = min(calls*int64(s.MaxRounds)*int64(1+s.MaxRetries), maxSum)
	if s.ForEach != nil {
		calls = min(calls*int64(elements), maxSum)
	}
	return calls
}

// Hash identifies what a plan would do: its steps, the functions that they resolve to, its values and its onError. White space and the
// form of the answer do not matter.
func (p *Plan) Hash(r *Request) string {
	text := make([]byte, 0, len(r.stepsRaw)+500)
	for _, value := range [][]byte{[]byte(r.stepsRaw), r.Return, r.Common, p.Input, []byte(p.OnError)} {
		text = append(strconv.AppendInt(text, int64(len(value)), 10), ':')
		text = append(text, value...)
	}
	p.writeFunctionNames(func(name string) { text = append(append(text, name...), '\n') })
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// writeFunctionNames calls write with the function of each step (name), and with the text of each saved chain.
func (p *Plan) writeFunctionNames(write func(string)) {
	for _, s := range p.Steps {
		if s.Saved != nil {
			write(string(s.Saved.Spec().Saved.Text))
		}
		if s.Inline != nil {
			s.Inline.writeFunctionNames(write)
		} else {
			write(s.Name())
		}
	}
}
