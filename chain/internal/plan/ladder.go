package plan

import (
	"slices"

	"github.com/onecall-mcp/onecall/steps"
)

// rungRange is the range of rungs that a step's functions are on. The zero value is that of a step without such functions.
type rungRange struct {
	Any       bool
	low, high int
}

func (s *rungRange) extend(other rungRange) {
	switch {
	case !other.Any:
	case !s.Any:
		*s = other
	default:
		s.low, s.high = min(s.low, other.low), max(s.high, other.high)
	}
}

// isSingle reports whether all functions are on one rung.
func (s *rungRange) isSingle() bool { return s.low == s.high }

// orderByRung makes steps whose functions are on different rungs run in the order written, so that decisions about a call depend on the
// calls before it and not on timing. Steps on one rung run side by side: a call does not allow another on its own rung to be skipped. A
// forEach over several rungs runs its elements one after another, whatever its concurrency. The plans of inline chains are ordered before
// the plan around them.
func (p *Plan) orderByRung(rung func(*steps.Entry) int) {
	var earlier []*Step
	for _, s := range p.Steps {
		if s.Inline != nil {
			for _, inner := range s.Inline.Steps {
				s.Rungs.extend(inner.Rungs)
			}
		} else if s.Fn != nil {
			if n := rung(s.Fn); n >= 0 {
				s.Rungs = rungRange{true, n, n}
			}
		}
		if !s.Rungs.Any {
			continue
		}
		if !s.Rungs.isSingle() {
			s.Concurrency = 1
		}
		before := s.After
		for _, e := range earlier {
			if alike := e.Rungs == s.Rungs && s.Rungs.isSingle(); !alike && !slices.Contains(before, e.Number) {
				s.After = append(s.After, e.Number)
			}
		}
		earlier = append(earlier, s)
	}
}
