package fault

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxNames bounds the names that Alike looks at, so that a huge object cannot make an error slow.
const maxNames = 20_000

// Alike returns the n names, or all if there are fewer, that share the most pairs of letters with word, most similar first. Unlike
// Nearest it does not leave out dissimilar names, and it is far faster.
func Alike(word string, names []string, n int) []string {
	names = names[:min(len(names), maxNames)]
	type candidate struct{ position, shared int }
	candidates, pairs := make([]candidate, len(names)), pairsOf(word)
	for i, name := range names {
		candidates[i] = candidate{i, pairs.shared(pairsOf(name))}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.shared, a.shared), cmp.Compare(a.position, b.position))
	})
	alike := make([]string, min(n, len(names)))
	for i := range alike {
		alike[i] = names[candidates[i].position]
	}
	return alike
}

// pairSet approximates the set of letter pairs in a name, ignoring case and the separators . _ - /.
type pairSet [4]uint64

func pairsOf(name string) (set pairSet) {
	var last byte
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.' || c == '_' || c == '-' || c == '/':
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		pair := uint(last)*31 + uint(c) // modulo 256 it selects one bit of the set
		if last != 0 {
			set[pair/64%4] |= 1 << (pair % 64)
		}
		last = c
	}
	return set
}

func (p pairSet) shared(other pairSet) int {
	n := 0
	for i := range p {
		n += bits.OnesCount64(p[i] & other[i])
	}
	return n
}
