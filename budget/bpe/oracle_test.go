package bpe

import (
	"math"
	"sync"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// pattern is the published expression of o200k_base with the long s written out, since regexp2 does not fold it to s, but the reference
// implementation does.
const pattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'[sſ]|'t|'re|'ve|'m|'ll|'d)?` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'[sſ]|'t|'re|'ve|'m|'ll|'d)?` +
	`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// fataler has the common methods of testing.TB and rapid.T that are used here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// oracle counts in the simplest way: it cuts with the published expression and searches all pairs for each merge.
type oracle struct {
	expression *regexp2.Regexp
	ranks      map[string]int
	counted    sync.Map // caches the counts of pieces
}

var theOracle = sync.OnceValue(func() *oracle {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken")
	if err != nil {
		panic(err)
	}
	return &oracle{expression: regexp2.MustCompile(pattern, regexp2.None), ranks: ranks}
})

// pieces returns text cut into pieces.
func (o *oracle) pieces(t fataler, text []byte) []string {
	t.Helper()
	// The expression matches characters, so record the position of each one in the text.
	var runes []rune
	var offsets []int
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		runes, offsets = append(runes, r), append(offsets, i)
		i += n
	}
	offsets = append(offsets, len(text))
	var pieces []string
	m, err := o.expression.FindRunesMatch(runes)
	for ; m != nil && err == nil; m, err = o.expression.FindNextMatch(m) {
		pieces = append(pieces, string(text[offsets[m.Index]:offsets[m.Index+m.Length]]))
	}
	if err != nil {
		t.Fatalf("the expression fails on %q: %v", text, err)
	}
	return pieces
}

// merge returns the tokens of bytes by merging alone.
func (o *oracle) merge(bytes string) []string {
	pieces := make([]string, len(bytes))
	for i := range pieces {
		pieces[i] = bytes[i : i+1]
	}
	for {
		lowest, at := math.MaxInt, 0
		for i := 1; i < len(pieces); i++ {
			if rank, ok := o.ranks[pieces[i-1]+pieces[i]]; ok && rank < lowest {
				lowest, at = rank, i
			}
		}
		if lowest == math.MaxInt {
			return pieces
		}
		pieces[at-1] += pieces[at]
		pieces = append(pieces[:at], pieces[at+1:]...)
	}
}

func (o *oracle) count(t fataler, text []byte) int {
	t.Helper()
	n := 0
	for _, p := range o.pieces(t, text) {
		k, ok := o.counted.Load(p)
		if _, token := o.ranks[p]; token {
			k = 1
		} else if !ok {
			k = len(o.merge(p))
			o.counted.Store(p, k)
		}
		n += k.(int)
	}
	return n
}

// must fails a test whose setup failed.
func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
