// Package search finds functions by words: in their names, the names and titles that their sources have for them, their
// descriptions, and their arguments, ranked by BM25F. Words are found in their other forms, by abbreviations and common
// synonyms, and with small mistakes where they are not found as they are.
package search

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// part is a part of what is known of a function.
type part int

const (
	ofName part = iota
	ofKeywords
	ofDescription
	ofArguments // their names
	ofDetails   // what the arguments' descriptions and enums say
	parts
)

// weigh is how much a word of a part counts, in a part of the usual length (in words), and by how much it counts less
// in a longer one (0: not at all, 1: in proportion). See Robertson and Zaragoza, The Probabilistic Relevance Framework,
// 2009, section 3.6 (BM25F); a fixed usual length takes the place of the average, so that what a function says for
// itself depends on nothing but the function.
var weigh = [parts]struct{ weight, usual, decline float64 }{
	ofName:        {3, 5, 0.7},
	ofKeywords:    {0.6, 4, 0.3},
	ofDescription: {2, 16, 0.7},
	ofArguments:   {0.3, 8, 0.7},
	ofDetails:     {0.15, 60, 0.4},
}

// saturation is BM25's k1: how soon more of the same word counts no more.
const saturation = 1.9

// maxPart bounds the words that are read of one part.
const maxPart = 400

// Index finds functions by words. It is made of one registry and never changes; many goroutines may use it.
type Index struct {
	entries  []*steps.Entry // sorted by name
	names    [][]string     // folded: the function's name, then the keywords that are one word
	terms    map[string]int32
	words    []string           // by term
	stems    []string           // by term
	families map[string][]int32 // the terms that have a stem
	postings [][]posting        // by term
	sorted   func() []int32     // terms by their words; made at the first word that is not found
}

// posting tells that a term stands in a function, and how much it says of it.
type posting struct {
	at     int32 // in entries
	impact float32
}

// New makes the index of the functions of r: some 5 ms and 1 MB for 1,000 functions, twice the time where their schemas were
// not read before.
func New(r *steps.Registry) *Index {
	x := &Index{entries: r.All(), terms: map[string]int32{}, families: map[string][]int32{}}
	x.names = make([][]string, len(x.entries))
	b := builder{Index: x}
	for i := range x.entries {
		b.add(int32(i))
	}
	x.sorted = sync.OnceValue(func() []int32 {
		all := make([]int32, len(x.words))
		for i := range all {
			all[i] = int32(i)
		}
		slices.SortFunc(all, func(a, b int32) int { return strings.Compare(x.words[a], x.words[b]) })
		return all
	})
	return x
}

// builder adds functions to an index.
type builder struct {
	*Index
	// Of the function that is being added:
	counts  [][parts]uint16 // by term
	counted []int32         // those with counts
	length  [parts]int
}

func (b *builder) add(at int32) {
	entry := b.entries[at]
	spec := entry.Spec()
	b.counted, b.length = b.counted[:0], [parts]int{}
	b.read(ofName, spec.Name, true)
	b.names[at] = []string{steps.FoldName(spec.Name)}
	for _, keyword := range spec.Keywords {
		b.read(ofKeywords, keyword, true)
		if !strings.ContainsAny(keyword, " \t\n") {
			b.names[at] = append(b.names[at], steps.FoldName(keyword))
		}
	}
	title := func(path string) string { return gjson.GetBytes(spec.Listing, path).Str }
	b.read(ofKeywords, cmp.Or(title("title"), title("annotations.title")), true)
	b.read(ofDescription, spec.Description, false)
	for _, name := range entry.Properties() {
		b.read(ofArguments, name, true)
	}
	gjson.GetBytes(spec.Input, "properties").ForEach(func(_, property gjson.Result) bool {
		b.read(ofDetails, property.Get("description").Str, false)
		property.Get("enum").ForEach(func(_, value gjson.Result) bool { return b.read(ofDetails, value.Str, true) })
		return b.length[ofDetails] < maxPart
	})
	for _, term := range b.counted {
		b.postings[term] = append(b.postings[term], posting{at, b.impact(&b.counts[term])})
		b.counts[term] = [parts]uint16{}
	}
}

// read counts the words of a text that belongs to a part, and reports whether more of that part would be read.
func (b *builder) read(p part, text string, identifier bool) bool {
	split(text, identifier, func(word string) bool {
		if b.length[p] == maxPart {
			return false
		}
		term := b.term(long(word))
		if b.counts[term] == [parts]uint16{} {
			b.counted = append(b.counted, term)
		}
		b.counts[term][p]++
		b.length[p]++
		return true
	})
	return b.length[p] < maxPart
}

func (b *builder) term(word string) int32 {
	term, ok := b.terms[word]
	if !ok {
		term, word = int32(len(b.words)), strings.Clone(word)
		b.terms[word] = term
		stem := stem(word)
		b.words, b.stems = append(b.words, word), append(b.stems, stem)
		b.families[stem] = append(b.families[stem], term)
		b.postings = append(b.postings, nil)
		b.counts = append(b.counts, [parts]uint16{})
	}
	return term
}

func (b *builder) impact(counts *[parts]uint16) float32 {
	sum := 0.0
	for p, count := range counts {
		if count > 0 {
			w := &weigh[p]
			sum += w.weight * float64(count) / (1 - w.decline + w.decline*float64(b.length[p])/w.usual)
		}
	}
	return float32(sum * (saturation + 1) / (sum + saturation))
}
