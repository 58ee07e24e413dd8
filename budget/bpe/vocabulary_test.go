package bpe

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"
)

func TestVocabularyEqualsPublished(t *testing.T) {
	t.Parallel()
	v, published := tables().vocabulary, theOracle().ranks
	if len(published) != tokens {
		t.Fatalf("the published vocabulary has %d tokens, want %d as in the packed one", len(published), tokens)
	}
	if n := int(v.start[tokens]); n != len(v.bytes) {
		t.Errorf("the tokens have %d bytes in all, want %d as in the file", n, len(v.bytes))
	}
	maximum := 0
	adjacent := make(map[string]bool)
	for token, rank := range published {
		if got := v.rank([]byte(token)); got != uint32(rank) {
			t.Errorf("%q has rank %d, want %d", token, got, rank)
		}
		maximum = max(maximum, len(token))
		for i := 1; i < len(token); i++ {
			adjacent[token[i-1:i+1]] = true
		}
	}
	if maximum != maxTokenBytes {
		t.Errorf("the longest token has %d bytes, want %d as the constant says", maximum, maxTokenBytes)
	}
	for p, got := range v.pairs {
		two := string([]byte{byte(p >> 8), byte(p)})
		want := uint32(neverAdjacent)
		if rank, ok := published[two]; ok {
			want = uint32(rank)
		} else if adjacent[two] {
			want = notToken
		}
		if got != want {
			t.Errorf("the pair %q has rank %d, want %d", two, got, want)
		}
	}
}

func TestNoticeNamesTheFile(t *testing.T) {
	t.Parallel()
	notice, err := os.ReadFile("VOCABULARY.md")
	must(t, err)
	if sum := fmt.Sprintf("packed, SHA-256 | `%x`", sha256.Sum256(packedVocabulary)); !bytes.Contains(notice, []byte(sum)) {
		t.Errorf("VOCABULARY.md lacks %q", sum)
	}
}

// Most tokens with a few bytes changed, added or removed are not tokens, but similar to some.
func TestRankOfSimilarTokens(t *testing.T) {
	t.Parallel()
	v := tables().vocabulary
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.IntRange(0, tokens-1).Draw(t, "id")
		near := append([]byte(nil), v.bytes[v.start[id]:v.start[id+1]]...)
		if rapid.Bool().Draw(t, "longer") {
			near = append(near, rapid.Byte().Draw(t, "end"))
		}
		near[rapid.IntRange(0, len(near)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		near = near[rapid.IntRange(0, len(near)-1).Draw(t, "from"):]
		want := uint32(notToken)
		if rank, ok := theOracle().ranks[string(near)]; ok {
			want = uint32(rank)
		}
		if got := v.rank(near); got != want {
			t.Fatalf("%q has rank %d, want %d", near, got, want)
		}
	})
}
