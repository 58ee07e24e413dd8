package bpe

import (
	"fmt"
	"testing"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

// The baseline merges every piece as one; the time for a byte must not grow with the length.
func BenchmarkPathological(b *testing.B) {
	for _, size := range []int{16 << 10, 256 << 10} {
		texts := pathological(size)
		for _, name := range []string{"a", "spaces", "base64", "letters", "漢字仮名交じり文"} {
			text := []byte(texts[name])
			want := inOneWindow(text)
			for arm, count := range map[string]func() int{"onecall": func() int { return Count(text, -1) },
				"one window": func() int { return inOneWindow(text) }} {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", name, size>>10, arm), func(b *testing.B) {
					b.SetBytes(int64(len(text)))
					b.ReportAllocs()
					for b.Loop() {
						if n := count(); n != want {
							b.Fatalf("%d tokens, want %d", n, want)
						}
					}
				})
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	b.Run("onecall", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newClasses()
			if v := newVocabulary(); v.start[tokens] == 0 {
				b.Fatal("the vocabulary is empty")
			}
		}
	})
	b.Run("loader", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if m, err := loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken"); err != nil || len(m) != tokens {
				b.Fatalf("%d tokens, %v; want %d", len(m), err, tokens)
			}
		}
	})
}

// inOneWindow counts without cutting pieces into smaller texts.
func inOneWindow(text []byte) (n int) {
	c := tables()
	for len(text) > 0 {
		end := c.next(text)
		if end <= maxTokenBytes && c.rank(text[:end]) != notToken {
			n++
		} else {
			n += c.mergeLong(text[:end], end, end, margin)
		}
		text = text[end:]
	}
	return n
}

func TestCountOfPathologicalTexts(t *testing.T) {
	t.Parallel()
	for name, text := range pathological(1 << 10) {
		checkCount(t, []byte(text))
		if got, want := inOneWindow([]byte(text)), Count([]byte(text), -1); got != want {
			t.Errorf("%q: %d tokens in one window, want %d", name, got, want)
		}
	}
	for name, text := range pathological(12 << 10) {
		text := []byte(text)
		want := inOneWindow(text)
		for _, limit := range []int{-1, want} {
			if got := Count(text, limit); got != want {
				t.Errorf("%q: %d tokens with a limit of %d, want %d", name, got, limit, want)
			}
		}
		for _, limit := range []int{0, want / 2, want - 1} {
			if got := Count(text, limit); got <= limit {
				t.Errorf("%q: %d tokens with a limit of %d, want more", name, got, limit)
			}
		}
	}
}

func TestCountAllocatesNothing(t *testing.T) {
	text := records(100 << 10)
	tables()
	if n := testing.AllocsPerRun(5, func() { Count(text, -1) }); n != 0 {
		t.Errorf("Count makes %v allocations, want none", n)
	}
}
