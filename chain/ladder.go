package chain

import (
	"slices"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// span is from which rung to which the functions of a step stand; the zero value is that of a step that calls none.
type span struct {
	any       bool
	low, high int
}

func (s *span) cover(other span) {
	switch {
	case !other.any:
	case !s.any:
		*s = other
	default:
		s.low, s.high = min(s.low, other.low), max(s.high, other.high)
	}
}

// one reports whether all functions stand on one rung.
func (s *span) one() bool { return s.low == s.high }

// climb has steps that call functions of different rungs run in the order written: what is decided of a call depends on what
// was called before it, and not on which is faster. Those of one rung run side by side, as what one of them calls does not
// let another pass. The elements of a forEach over several rungs run one after the other, whatever its concurrency. The
// plans of inline chains are made before the one that they stand in.
func (p *plan) climb(rung func(*steps.Entry) int) {
	var earlier []*plannedStep
	for _, s := range p.steps {
		if s.inline != nil {
			for _, inner := range s.inline.steps {
				s.rungs.cover(inner.rungs)
			}
		} else if s.fn != nil {
			if n := rung(s.fn); n >= 0 {
				s.rungs = span{true, n, n}
			}
		}
		if !s.rungs.any {
			continue
		}
		if !s.rungs.one() {
			s.concurrency = 1
		}
		before := s.after
		for _, e := range earlier {
			if alike := e.rungs == s.rungs && s.rungs.one(); !alike && !slices.Contains(before, e.number) {
				s.after = append(s.after, e.number)
			}
		}
		earlier = append(earlier, s)
	}
}

// notes are what functions warn of while a chain runs.
type notes struct {
	mu   sync.Mutex
	list []*fault.Error
	told map[string]bool // by place and message: the elements of a forEach share theirs
}

func (n *notes) add(f *fault.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	is := f.At + " " + f.Message
	if n.told[is] || len(n.list) == maxWarnings {
		return
	}
	if n.told == nil {
		n.told = map[string]bool{}
	}
	n.told[is], n.list = true, append(n.list, f)
}

// close adds what was taken down to the warnings, in the order of the steps. A function that was abandoned may still run: what
// it warns of after that is never read.
func (n *notes) close(s *exchange) {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.SortStableFunc(n.list, func(a, b *fault.Error) int {
		if d := stepOf(a.At) - stepOf(b.At); d != 0 {
			return d
		}
		return strings.Compare(a.At, b.At)
	})
	for _, f := range n.list {
		s.warn(f)
	}
}
