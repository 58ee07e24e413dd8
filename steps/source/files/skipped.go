package files

import (
	"cmp"
	"slices"
	"sync"
)

// Reasons for which a file or folder was not read though it was asked for.
const (
	binary     = "binary"      // holds NUL bytes
	unreadable = "unreadable"  // could not be opened or read, or has turned into something else
	longLine   = "long_line"   // holds a line longer than MaxFileBytes: read up to there
	tooDeep    = "too_deep"    // lies more than maxDepth folders down
	ignoreSize = "ignore_size" // a file of ignore rules of which only the first hold: more than maxIgnoreBytes or maxRules
)

// skip tells of one reason how often it held, and the first path of which it did.
type skip struct {
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// skipped collects what was not read, so that no file is missing from a result without a word. It may be used by many
// goroutines.
type skipped struct {
	mu    sync.Mutex
	skips []skip
}

func (s *skipped) add(reason, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.skips, func(k skip) bool { return k.Reason == reason })
	if i < 0 {
		s.skips = append(s.skips, skip{reason, 1, path})
		return
	}
	s.skips[i].Count++
	s.skips[i].Example = min(s.skips[i].Example, path)
}

// list is what was collected, by reason; nil when nothing was skipped.
func (s *skipped) list() []skip {
	slices.SortFunc(s.skips, func(a, b skip) int { return cmp.Compare(a.Reason, b.Reason) })
	return s.skips
}
