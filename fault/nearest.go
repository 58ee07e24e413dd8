package fault

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// minSimilarity is the similarity (0 to 1) above which a name is suggested. The names state.set and http.get have exactly 0.5, and
// are not suggested for each other.
const minSimilarity = 0.5

// maxCompared bounds how many names Nearest compares letter by letter. Names and words of more than maxNameLength bytes are not compared.
const maxCompared, maxNameLength = 100, 200

// Nearest returns the names that are most similar to word, at most n, best first. Letter case and the separators . _ - / count
// little. Dissimilar names are left out; names of equal similarity keep their order.
func Nearest(word string, names []string, n int) []string {
	type candidate struct {
		name  string
		score float64
	}
	if len(names) > maxCompared {
		names = Alike(word, names, maxCompared)
	}
	folded := fold(word)
	var candidates []candidate
	for _, name := range names {
		if len(name) > maxNameLength || len(word) > maxNameLength {
			continue
		}
		if s := score(folded, fold(name)); s > minSimilarity {
			candidates = append(candidates, candidate{name, s})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	if len(candidates) > n {
		candidates = candidates[:n]
	}
	var best []string
	for _, candidate := range candidates {
		best = append(best, candidate.name)
	}
	return best
}

// score returns the similarity of two folded names. A name that contains the other counts as similar, because agents often leave
// out a prefix or suffix.
func score(a, b string) float64 {
	s := levenshtein.Match(a, b, nil)
	if len(a) >= 3 && len(b) >= 3 && (strings.Contains(a, b) || strings.Contains(b, a)) {
		s = max(s, 0.7)
	}
	if len(a) == len(b) && sorted(a) == sorted(b) { // the same letters in another order
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

// fold returns s in lower case and without separators.
func fold(s string) string { return separators.Replace(strings.ToLower(s)) }
