package search

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// Hit is a function that was found.
type Hit struct {
	Entry *steps.Entry
	Score float64 // more is better; scores of different queries or views cannot be compared
}

// leastShare is the share of the best score below which a function is no hit.
const leastShare = 0.25

// Find ranks the functions that keep accepts (nil: all) by how well the query finds them, best first, equal ones by name,
// at most limit of them (0: all). Those that are far behind the best are left out. A query that is the name of functions,
// in the manner of Registry.Resolve, or a keyword of theirs, finds these alone, if it is of more than one word. Only the
// first 1,024 bytes and 32 words of a query count; one without words finds nothing.
//
// What it answers is the same, scores included, as if the registry held nothing but what keep accepts. keep is called
// once for every function and must not change it.
func (x *Index) Find(query string, keep func(*steps.Spec) bool, limit int) []Hit {
	f := newFinding(x, keep)
	if named := f.named(query); named != nil {
		return first(named, limit)
	}
	for _, group := range f.groups(query) {
		f.count(group)
	}
	return first(f.hits(), limit)
}

func first(hits []Hit, limit int) []Hit {
	if limit > 0 && len(hits) > limit {
		return hits[:limit]
	}
	return hits
}

// finding is one search.
type finding struct {
	*Index
	visible []bool // by entry
	total   int    // that are visible
	scores  []float32

	best  []float32 // of the word that is being counted
	found []int32   // those with best
}

func newFinding(x *Index, keep func(*steps.Spec) bool) *finding {
	n := len(x.entries)
	f := &finding{Index: x, visible: make([]bool, n), scores: make([]float32, n), best: make([]float32, n)}
	for i, entry := range x.entries {
		if keep == nil || keep(entry.Spec()) {
			f.visible[i] = true
			f.total++
		}
	}
	return f
}

// named finds the functions that the query names; nil when there are none.
func (f *finding) named(query string) (hits []Hit) {
	query = strings.TrimSpace(query)
	words := 0
	if len(query) > maxQuery || strings.ContainsAny(query, " \t\r\n") {
		return nil
	}
	split(query, true, func(string) bool { words++; return words < 2 })
	folded := steps.FoldName(query)
	if words < 2 {
		return nil
	}
	for i, names := range f.names {
		if !f.visible[i] {
			continue
		}
		isSuffix := strings.HasSuffix(names[0], folded) && endsIn(f.entries[i].Spec().Name, folded)
		if isSuffix || slices.Contains(names, folded) {
			hits = append(hits, Hit{f.entries[i], 1})
		}
	}
	return hits
}

// endsIn reports whether what follows a separator of a name is folded.
func endsIn(name, folded string) bool {
	for {
		at := strings.IndexAny(name, "._-/")
		if at < 0 {
			return false
		}
		if name = name[at+1:]; steps.FoldName(name) == folded {
			return true
		}
	}
}

// count adds to the scores what one word of the query gives: of the terms that stand for it the one that gives most. How
// rare the word is follows from all the functions that it finds.
func (f *finding) count(group []alternative) {
	f.found = f.found[:0]
	for _, a := range group {
		for _, p := range f.postings[a.term] {
			if !f.visible[p.at] {
				continue
			}
			if f.best[p.at] == 0 {
				f.found = append(f.found, p.at)
			}
			f.best[p.at] = max(f.best[p.at], a.weight*p.impact)
		}
	}
	holding := float64(len(f.found))
	rarity := float32(math.Log(1 + (float64(f.total)-holding+0.5)/(holding+0.5)))
	for _, at := range f.found {
		f.scores[at] += rarity * f.best[at]
		f.best[at] = 0
	}
}

func (f *finding) hits() (hits []Hit) {
	if len(f.scores) == 0 {
		return nil
	}
	least := max(leastShare*slices.Max(f.scores), math.SmallestNonzeroFloat32)
	for i, score := range f.scores {
		if score >= least {
			hits = append(hits, Hit{f.entries[i], float64(score)})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}
