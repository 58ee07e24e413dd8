package files

import (
	"cmp"
	"slices"
	"sync"
)

// Reasons why a file or folder was not read.
const (
	binary     = "binary"      // contains NUL bytes
	unreadable = "unreadable"  // cannot be opened or read, or became something else
	longLine   = "long_line"   // contains a line longer than MaxFileBytes: read up to there
	tooDeep    = "too_deep"    // more than maxDepth folders down
	ignoreSize = "ignore_size" // a file of ignore rules that was cut at maxIgnoreBytes or maxRules
)

// skip says how often a reason applied, with an example path.
type skip struct {
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// skipList collects the files and folders that were not read, so that a result reports what is missing. Many goroutines may use it.
type skipList struct {
	mu    sync.Mutex
	skips []skip
}

func (s *skipList) add(reason, path string) {
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

// list returns the skips by reason; nil if nothing was skipped.
func (s *skipList) list() []skip {
	slices.SortFunc(s.skips, func(a, b skip) int { return cmp.Compare(a.Reason, b.Reason) })
	return s.skips
}
