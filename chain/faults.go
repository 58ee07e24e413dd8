package chain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of what is told of one request: enough to mend it by, and no more than can be found in a moment.
const (
	maxFaults   = 1000
	maxWarnings = 100
)

// faultList collects faults; what comes past maxFaults is only counted.
type faultList struct {
	list   []*fault.Error
	more   int
	places map[string]bool
}

func (l *faultList) add(faults ...*fault.Error) {
	for _, f := range faults {
		if len(l.list) == maxFaults {
			l.more++
			continue
		}
		if l.places == nil {
			l.places = map[string]bool{}
		}
		l.list, l.places[f.At] = append(l.list, f), true
	}
}

// has reports whether a place, or one that it lies in, is at fault already.
func (l *faultList) has(at string) bool {
	for at != "" {
		if l.places[at] {
			return true
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
	return false
}

// sorted gives the faults in the order of their steps, those of no step first, then of their places.
func (l *faultList) sorted() []*fault.Error {
	slices.SortStableFunc(l.list, func(a, b *fault.Error) int {
		if d := stepOf(a.At) - stepOf(b.At); d != 0 {
			return d
		}
		return strings.Compare(a.At, b.At)
	})
	return l.list
}

// stepOf is the number of the outermost step that a pointer lies in; -1 when it lies in none.
func stepOf(at string) int {
	rest, found := strings.CutPrefix(at, "/steps/")
	if !found {
		return -1
	}
	digits, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}
