package plan

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
)

// maxFaults bounds the faults that are reported for one request.
const maxFaults = 1000

// MaxWarnings bounds the warnings that are reported for one request.
const MaxWarnings = 100

// Faults collects faults. Those after maxFaults are only counted.
type Faults struct {
	List     []*fault.Error
	More     int
	pointers map[string]bool
}

// Add adds faults.
func (l *Faults) Add(faults ...*fault.Error) {
	for _, f := range faults {
		if len(l.List) == maxFaults {
			l.More++
			continue
		}
		if l.pointers == nil {
			l.pointers = map[string]bool{}
		}
		l.List, l.pointers[f.At] = append(l.List, f), true
	}
}

// has reports whether a pointer, or one above it, already has a fault.
func (l *Faults) has(at string) bool {
	for at != "" {
		if l.pointers[at] {
			return true
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
	return false
}

// Sorted returns the faults in the order of their steps, those without a step first, then by pointer.
func (l *Faults) Sorted() []*fault.Error {
	slices.SortStableFunc(l.List, func(a, b *fault.Error) int {
		if d := facts.StepOf(a.At) - facts.StepOf(b.At); d != 0 {
			return d
		}
		return strings.Compare(a.At, b.At)
	})
	return l.List
}
