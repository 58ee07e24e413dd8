package search

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// Bounds of a query: its bytes, its words, the unknown words that guess is called for, and the terms that it returns for one of them.
const maxQuery, maxWords, maxGuessedWords, maxGuesses = 1024, 32, 8, 12

// Weights of terms that stand for a word: another form of it, a synonym, a completion, a correction.
const formWeight, synonymWeight, prefixWeight, typoWeight = 0.7, 0.5, 0.8, 0.7

// alternative is a term that stands for a word of the query.
type alternative struct {
	term   int32
	weight float32
}

// alternatives returns, for each word of the query, the terms that stand for it.
func (f *searchRun) alternatives(words []string) (all [][]alternative) {
	guessed := 0
	for i, word := range words {
		group := append(f.forms(word), f.synonyms(word)...)
		if i > 0 {
			group = append(group, f.forms(words[i-1]+word)...)
		}
		if i+1 < len(words) {
			group = append(group, f.forms(word+words[i+1])...)
		}
		if len(group) > 0 {
			all = append(all, group)
			continue
		}
		if guessed++; guessed <= maxGuessedWords {
			all = append(all, f.guess(word)...)
		}
	}
	return all
}

// wordsOf returns the words of a query without the stop words, each once; the stop words if there are no others.
func (f *searchRun) wordsOf(query string) (words []string) {
	if len(query) > maxQuery {
		query = strings.ToValidUTF8(query[:maxQuery], "")
	}
	add := func(word string) bool {
		word = expandAbbreviation(word)
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
		return len(words) < maxWords
	}
	for piece := range strings.FieldsFuncSeq(query, func(c rune) bool { return !isWord(c) }) {
		if whole := strings.ToLower(piece); len(f.forms(expandAbbreviation(whole))) > 0 {
			add(whole)
		} else {
			split(piece, true, add)
		}
		if len(words) == maxWords {
			break
		}
	}
	return significant(words)
}

// significant returns the words that are no stop words; all if there are no others.
func significant(words []string) []string {
	others := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return stopWords[word] })
	if len(others) == 0 {
		return words
	}
	return others
}

// forms returns the terms of a word and of its other forms.
func (f *searchRun) forms(word string) (group []alternative) {
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

// synonyms returns the terms of a word's synonyms.
func (f *searchRun) synonyms(word string) (group []alternative) {
	for _, other := range synonymStems()[stem(word)] {
		for _, term := range f.families[other] {
			if f.isVisible(term) {
				group = append(group, alternative{term, synonymWeight})
			}
		}
	}
	return group
}

func (f *searchRun) isVisible(term int32) bool {
	return slices.ContainsFunc(f.postings[term], func(p posting) bool { return f.visible[p.at] })
}

// guess returns terms for a word that no function has. They stand for the two words that the word joins; else they are its completions,
// or else its corrections.
func (f *searchRun) guess(word string) [][]alternative {
	const minimum = 3
	for at := len(word) - minimum; at >= minimum; at-- {
		left, right := f.forms(word[:at]), f.forms(word[at:])
		if utf8.RuneStart(word[at]) && len(left) > 0 && len(right) > 0 {
			return [][]alternative{left, right}
		}
	}
	if len(word) < minimum {
		return nil
	}
	if group := f.completions(word); len(group) > 0 {
		return [][]alternative{group}
	}
	return [][]alternative{f.corrections(word)}
}

// completions returns the first terms that begin with a word.
func (f *searchRun) completions(word string) (group []alternative) {
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

// corrections returns the first of the terms that are nearest to a word of four letters or more: one letter missing, added
// or changed, or two neighbors swapped; for seven letters or more, two such mistakes. If words are not that near, their stems may be, as
// with isue and issues.
func (f *searchRun) corrections(word string) (group []alternative) {
	const minimum, minimumForTwo = 4, 7
	if len(word) < minimum {
		return nil
	}
	allowed, nearest, stem := 1, 0, stem(word)
	if len(word) >= minimumForTwo {
		allowed = 2
	}
	for _, term := range f.sorted() {
		other := f.words[term]
		if len(other) < minimum-1 || other[0] != word[0] {
			continue
		}
		mistakes := distance(word, other, allowed)
		if mistakes > allowed && len(f.stems[term]) >= minimum {
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

// distance returns the number of mistakes between a and b, as corrections counts them, and more than limit if there are
// more.
func distance(a, b string, limit int) int {
	// One mistake changes the length by at most one, and the set of letters by at most two.
	if differing := letters(a) ^ letters(b); len(a)-len(b) > limit || len(b)-len(a) > limit || bits.OnesCount32(differing) > 2*limit {
		return limit + 1
	}
	if isSwapped(a, b) {
		return 1
	}
	return levenshtein.Distance(a, b, nil)
}

// letters returns approximately which letters a word has.
func letters(word string) (set uint32) {
	for i := range len(word) {
		set |= 1 << (word[i] % 32)
	}
	return set
}

// isSwapped reports whether a and b differ only in two neighbors that are swapped.
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
