package fault

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// leastMatch is the similarity (0 to 1) up to which a name is no help as a suggestion: half of state.set is in http.get.
const leastMatch = 0.5

// maxCompared bounds the names that Nearest compares letter by letter, and maxNameLength their length.
const maxCompared, maxNameLength = 100, 200

// Nearest returns at most n of names, those most like word, best first; letter case and the separators . _ - / count
// little. Names that are not alike at all are left out; equal ones keep the order of names.
func Nearest(word string, names []string, n int) []string {
	type scored struct {
		name  string
		score float64
	}
	if len(names) > maxCompared {
		names = Alike(word, names, maxCompared)
	}
	folded := fold(word)
	var found []scored
	for _, name := range names {
		if len(name) > maxNameLength || len(word) > maxNameLength {
			continue
		}
		if s := score(folded, fold(name)); s > leastMatch {
			found = append(found, scored{name, s})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	if len(found) > n {
		found = found[:n]
	}
	var best []string
	for _, f := range found {
		best = append(best, f.name)
	}
	return best
}

// score is the similarity of two folded names; one that holds the other whole counts as near, as agents often leave
// out a prefix or a suffix.
func score(a, b string) float64 {
	s := levenshtein.Match(a, b, nil)
	if len(a) >= 3 && len(b) >= 3 && (strings.Contains(a, b) || strings.Contains(b, a)) {
		s = max(s, 0.7)
	}
	if len(a) == len(b) && sorted(a) == sorted(b) { // letters in another order
		s = max(s, 0.7)
	}
	return s
}

func sorted(s string) string {
	letters := []byte(s)
	slices.Sort(letters)
	return string(letters)
}

var separators = strings.NewReplacer(".", "", "_", "", "-", "", "/", "")

func fold(s string) string { return separators.Replace(strings.ToLower(s)) }
