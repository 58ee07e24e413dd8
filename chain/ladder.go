package chain

import (
	"slices"

	"github.com/onecall-mcp/onecall/steps"
)

// rungRange is the range of rungs that a step's functions are on. The zero value is that of a step without such functions.
type rungRange struct {
	any       bool
	low, high int
}

func (s *rungRange) extend(other rungRange) {
	switch {
	case !other.any:
	case !s.any:
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
func (p *plan) orderByRung(rung func(*steps.Entry) int) {
	var earlier []*plannedStep
	for _, s := range p.steps {
		if s.inline != nil {
			for _, inner := range s.inline.steps {
				s.rungs.extend(inner.rungs)
			}
		} else if s.fn != nil {
			if n := rung(s.fn); n >= 0 {
				s.rungs = rungRange{true, n, n}
			}
		}
		if !s.rungs.any {
			continue
		}
		if !s.rungs.isSingle() {
			s.concurrency = 1
		}
		before := s.after
		for _, e := range earlier {
			if alike := e.rungs == s.rungs && s.rungs.isSingle(); !alike && !slices.Contains(before, e.number) {
				s.after = append(s.after, e.number)
			}
		}
		earlier = append(earlier, s)
	}
}
