package search

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// Hit is a function found by a search.
type Hit struct {
	Entry *steps.Entry
	Score float64 // higher is better; scores of different queries or views are not comparable
}

// minShare is the share of the best score below which a function is no hit.
const minShare = 0.25

// Find returns the functions that keep accepts (nil: all) and that match the query, best first, and by name if they match equally well. It
// returns at most limit functions (0: all), and drops those far behind the best. If the query is one identifier of several words, such as
// list_pulls, that is the name (as in Registry.Resolve) or a keyword of functions, it finds only these functions. Only the first 1,024
// bytes and 32 words of a query count; a query without words finds nothing.
//
// The answer, including scores, is the same as if the registry contained only the functions that keep accepts. keep is called once for
// every function and must not change its spec.
func (x *Index) Find(query string, keep func(*steps.Spec) bool, limit int) []Hit {
	f := newSearchRun(x, keep)
	if exact := f.exactNames(query); exact != nil {
		return topHits(exact, limit)
	}
	words := f.wordsOf(query)
	for _, alternatives := range f.alternatives(words) {
		f.addScores(alternatives)
	}
	return topHits(f.hits(stemSet(words)), limit)
}

func topHits(hits []Hit, limit int) []Hit {
	if limit > 0 && len(hits) > limit {
		return hits[:limit]
	}
	return hits
}

// searchRun is one search.
type searchRun struct {
	*Index
	visible []bool // by entry: whether the search may find it
	total   int    // number of visible entries
	scores  []float32

	// The following fields are about the current word of the query.
	best    []float32 // by entry: the score of the word's best term
	matched []int32   // entries with a score in best
}

func newSearchRun(x *Index, keep func(*steps.Spec) bool) *searchRun {
	n := len(x.entries)
	f := &searchRun{Index: x, visible: make([]bool, n), scores: make([]float32, n), best: make([]float32, n)}
	for i, entry := range x.entries {
		if keep == nil || keep(entry.Spec()) {
			f.visible[i] = true
			f.total++
		}
	}
	return f
}

// exactNames returns the functions whose name or keyword is the whole query; nil if there are none, or the query is a single word.
func (f *searchRun) exactNames(query string) (hits []Hit) {
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

// endsIn reports whether the rest of a name after one of its separators folds to folded.
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

// addScores adds the scores of one word of the query, given the terms that stand for it. For each function it uses the best of these terms.
// The word's rarity follows from the number of functions that have one of them.
func (f *searchRun) addScores(alternatives []alternative) {
	f.matched = f.matched[:0]
	for _, a := range alternatives {
		for _, p := range f.postings[a.term] {
			if !f.visible[p.at] {
				continue
			}
			if f.best[p.at] == 0 {
				f.matched = append(f.matched, p.at)
			}
			f.best[p.at] = max(f.best[p.at], a.weight*p.impact)
		}
	}
	matches := float64(len(f.matched))
	rarity := float32(math.Log(1 + (float64(f.total)-matches+0.5)/(matches+0.5)))
	for _, at := range f.matched {
		f.scores[at] += rarity * f.best[at]
		f.best[at] = 0
	}
}

// hits returns the functions with at least minShare of the best score, and above 0, best first. Functions whose name is the whole query
// come first: their scores are raised by the best score.
func (f *searchRun) hits(stems []string) (hits []Hit) {
	if len(f.scores) == 0 {
		return nil
	}
	best := slices.Max(f.scores)
	minimum := max(minShare*best, math.SmallestNonzeroFloat32)
	for i, score := range f.scores {
		if score < minimum {
			continue
		}
		if isWholeName(f.entries[i].Spec().Name, stems) {
			score += best
		}
		hits = append(hits, Hit{f.entries[i], float64(score)})
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

// isWholeName reports whether a name, or its end after a dot, has exactly the words with these stems, in any order: list devices is
// the whole of netbox.device.list, but not of netbox.device_bay.list.
func isWholeName(name string, stems []string) bool {
	for more := true; more; _, name, more = strings.Cut(name, ".") {
		var words []string
		split(name, true, func(word string) bool {
			words = append(words, expandAbbreviation(word))
			return true
		})
		if slices.Equal(stemSet(significant(words)), stems) {
			return true
		}
	}
	return false
}

// stemSet returns the stems of words, sorted, each once.
func stemSet(words []string) []string {
	stems := make([]string, len(words))
	for i, word := range words {
		stems[i] = stem(word)
	}
	slices.Sort(stems)
	return slices.Compact(stems)
}
