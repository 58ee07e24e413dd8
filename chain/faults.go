package chain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of the faults and warnings that are reported for one request.
const (
	maxFaults   = 1000
	maxWarnings = 100
)

// faultList collects faults. Those after maxFaults are only counted.
type faultList struct {
	list     []*fault.Error
	more     int
	pointers map[string]bool
}

func (l *faultList) add(faults ...*fault.Error) {
	for _, f := range faults {
		if len(l.list) == maxFaults {
			l.more++
			continue
		}
		if l.pointers == nil {
			l.pointers = map[string]bool{}
		}
		l.list, l.pointers[f.At] = append(l.list, f), true
	}
}

// has reports whether a pointer, or one above it, already has a fault.
func (l *faultList) has(at string) bool {
	for at != "" {
		if l.pointers[at] {
			return true
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
	return false
}

// sorted returns the faults in the order of their steps, those without a step first, then by pointer.
func (l *faultList) sorted() []*fault.Error {
	slices.SortStableFunc(l.list, func(a, b *fault.Error) int {
		if d := stepOf(a.At) - stepOf(b.At); d != 0 {
			return d
		}
		return strings.Compare(a.At, b.At)
	})
	return l.list
}

// stepOf returns the number of the outermost step that a pointer lies in, or -1.
func stepOf(at string) int {
	rest, ok := strings.CutPrefix(at, "/steps/")
	if !ok {
		return -1
	}
	digits, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}
