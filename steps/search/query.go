package search

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// Bounds of a query: its bytes, its words, the words that are looked for with mistakes, and the terms that stand for such
// a word.
const maxQuery, maxWords, maxGuessed, maxGuesses = 1024, 32, 8, 12

// What a term counts that stands for a word: another form of it, another word for the same, a word that it begins, a word
// that it is but for a mistake.
const formWeight, kinWeight, prefixWeight, typoWeight = 0.7, 0.5, 0.8, 0.7

// alternative is a term that stands for a word of the query.
type alternative struct {
	term   int32
	weight float32
}

// groups are the words of the query, each with what stands for it.
func (f *finding) groups(query string) (groups [][]alternative) {
	words := f.wordsOf(query)
	guessed := 0
	for i, word := range words {
		group := append(f.forms(word), f.kindred(word)...)
		if i > 0 {
			group = append(group, f.forms(words[i-1]+word)...)
		}
		if i+1 < len(words) {
			group = append(group, f.forms(word+words[i+1])...)
		}
		if len(group) > 0 {
			groups = append(groups, group)
			continue
		}
		if guessed++; guessed <= maxGuessed {
			groups = append(groups, f.guess(word)...)
		}
	}
	return groups
}

// wordsOf gives those of a query that say something, each once.
func (f *finding) wordsOf(query string) (words []string) {
	if len(query) > maxQuery {
		query = strings.ToValidUTF8(query[:maxQuery], "")
	}
	add := func(word string) bool {
		word = long(word)
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
		return len(words) < maxWords
	}
	for piece := range strings.FieldsFuncSeq(query, func(c rune) bool { return !isWord(c) }) {
		if whole := strings.ToLower(piece); len(f.forms(long(whole))) > 0 {
			add(whole)
		} else {
			split(piece, true, add)
		}
		if len(words) == maxWords {
			break
		}
	}
	telling := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return stopWords[word] })
	if len(telling) == 0 {
		return words
	}
	return telling
}

// forms are the terms of a word and of its other forms.
func (f *finding) forms(word string) (group []alternative) {
	for _, term := range f.families[stem(word)] {
		if f.isVisible(term) {
			weight := float32(formWeight)
			if f.words[term] == word {
				weight = 1
			}
			group = append(group, alternative{term, weight})
		}
	}
	return group
}

// kindred are the terms of the words that are kin of a word.
func (f *finding) kindred(word string) (group []alternative) {
	for _, other := range kindred()[stem(word)] {
		for _, term := range f.families[other] {
			if f.isVisible(term) {
				group = append(group, alternative{term, kinWeight})
			}
		}
	}
	return group
}

func (f *finding) isVisible(term int32) bool {
	return slices.ContainsFunc(f.postings[term], func(p posting) bool { return f.visible[p.at] })
}

// guess finds what may be meant by a word that no function has: two words that were run together, a word that it
// begins, a word that it is but for a mistake.
func (f *finding) guess(word string) [][]alternative {
	const least = 3
	for at := len(word) - least; at >= least; at-- {
		left, right := f.forms(word[:at]), f.forms(word[at:])
		if utf8.RuneStart(word[at]) && len(left) > 0 && len(right) > 0 {
			return [][]alternative{left, right}
		}
	}
	if len(word) < least {
		return nil
	}
	if group := f.begun(word); len(group) > 0 {
		return [][]alternative{group}
	}
	return [][]alternative{f.misspelt(word)}
}

// begun gives the first terms that a word begins.
func (f *finding) begun(word string) (group []alternative) {
	sorted := f.sorted()
	from, _ := slices.BinarySearchFunc(sorted, word, func(term int32, word string) int { return strings.Compare(f.words[term], word) })
	for _, term := range sorted[from:] {
		if !strings.HasPrefix(f.words[term], word) || len(group) == maxGuesses {
			break
		}
		if f.isVisible(term) {
			group = append(group, alternative{term, prefixWeight})
		}
	}
	return group
}

// misspelt gives the first of the terms that are nearest to a word of four letters or more: one letter less, more or
// other, or two neighbours that changed places; of seven letters or more, two such mistakes. Where the words are not as near,
// their stems may be, as isue is to issues.
func (f *finding) misspelt(word string) (group []alternative) {
	const least, two = 4, 7
	if len(word) < least {
		return nil
	}
	allowed, nearest, stem := 1, 0, stem(word)
	if len(word) >= two {
		allowed = 2
	}
	for _, term := range f.sorted() {
		other := f.words[term]
		if len(other) < least-1 || other[0] != word[0] {
			continue
		}
		mistakes := distance(word, other, allowed)
		if mistakes > allowed && len(f.stems[term]) >= least {
			mistakes = distance(stem, f.stems[term], allowed)
		}
		if mistakes > allowed || !f.isVisible(term) {
			continue
		}
		if group == nil || mistakes < nearest {
			group, nearest = nil, mistakes
		}
		if mistakes == nearest && len(group) < maxGuesses {
			group = append(group, alternative{term, typoWeight})
		}
	}
	return group
}

// distance is the number of mistakes that make b of a, as misspelt counts them, and more than most where there are more.
func distance(a, b string, most int) int {
	if differing := letters(a) ^ letters(b); len(a)-len(b) > most || len(b)-len(a) > most || bits.OnesCount32(differing) > 2*most {
		return most + 1
	}
	if isSwapped(a, b) {
		return 1
	}
	return levenshtein.Distance(a, b, nil)
}

// letters is roughly which letters a word has.
func letters(word string) (set uint32) {
	for i := range len(word) {
		set |= 1 << (word[i] % 32)
	}
	return set
}

// isSwapped reports whether two neighbours changed places and nothing else differs.
func isSwapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	at := 0
	for at < len(a) && a[at] == b[at] {
		at++
	}
	return at+1 < len(a) && a[at] == b[at+1] && a[at+1] == b[at] && a[at+2:] == b[at+2:]
}
