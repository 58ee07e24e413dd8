package bpe

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"go/build"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"
)

// testdata/reference.json holds texts with the counts of OpenAI's own implementation; VOCABULARY.md says how they are made.
func TestCountEqualsReference(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/reference.json")
	must(t, err)
	var cases []struct {
		Text   string `json:"text"`
		Tokens int    `json:"tokens"`
	}
	must(t, json.Unmarshal(file, &cases))
	if len(cases) < 400 {
		t.Fatalf("%d reference cases, want at least 400", len(cases))
	}
	for _, c := range cases {
		if got := Count([]byte(c.Text), -1); got != c.Tokens {
			t.Errorf("%q has %d tokens, want the reference's %d", c.Text, got, c.Tokens)
		}
		if got := theOracle().count(t, []byte(c.Text)); got != c.Tokens {
			t.Errorf("the oracle counts %d tokens in %q, want the reference's %d", got, c.Text, c.Tokens)
		}
	}
}

func TestCountEqualsOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkCount(t, texts(t, 40)) })
}

func FuzzCount(f *testing.F) {
	for _, s := range nasty {
		f.Add([]byte(s + s + " " + s))
	}
	f.Add([]byte(strings.Join(nasty, "")))
	f.Add([]byte(strings.Repeat("ab", 300) + strings.Repeat(" ", 300) + strings.Repeat("漢字", 100)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4<<10 {
			t.Skip("the oracle takes quadratic time")
		}
		checkCount(t, text)
	})
}

// checkCount compares the count with the oracle's, under every limit near it.
func checkCount(t fataler, text []byte) {
	want := theOracle().count(t, text)
	for _, limit := range []int{-1, math.MinInt, want, want + 1, len(text), math.MaxInt} {
		if got := Count(text, limit); got != want {
			t.Fatalf("%q has %d tokens with a limit of %d, want %d", text, got, limit, want)
		}
	}
	for _, limit := range []int{0, want / 2, want - 1} {
		if got := Count(text, limit); limit >= 0 && want > limit && got <= limit {
			t.Fatalf("%q, of %d tokens, has %d with a limit of %d", text, want, got, limit)
		}
	}
	if got := Sample(text); got != want {
		t.Fatalf("%q has %d tokens by samples, want %d", text, got, want)
	}
}

// corpora returns real texts: of the project, of the toolchain and, if it exists, the data beside the repository.
func corpora(t testing.TB) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	source := filepath.Join(build.Default.GOROOT, "src")
	for _, pattern := range []string{
		"../../fault/*.go", "../../go.*", "../*.go", "*.go", "testdata/*", "../../../shared/data/*.jsonl",
		filepath.Join(source, "testdata/*.txt"),
		filepath.Join(source, "net/http/server.go"), filepath.Join(source, "html/entity.go"), filepath.Join(source, "strconv/*_test.go"),
	} {
		paths, err := filepath.Glob(pattern)
		must(t, err)
		if len(paths) == 0 {
			t.Logf("no files match %s", pattern)
		}
		for _, path := range paths {
			if files[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return files
}

func TestCountOfFiles(t *testing.T) {
	t.Parallel()
	for path, text := range corpora(t) {
		text = text[:min(len(text), 32<<10)] // the oracle is slow
		if got, want := Count(text, -1), theOracle().count(t, text); got != want {
			t.Errorf("%s has %d tokens, want %d", path, got, want)
		}
	}
}

// Count agrees with two independent libraries, on texts that they count correctly.
func TestCountEqualsOtherTokenizers(t *testing.T) {
	t.Parallel()
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	must(t, err)
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	encoding, err := tiktoken.GetEncoding("o200k_base")
	must(t, err)
	for _, text := range [][]byte{records(64 << 10), chinese(32 << 10)} {
		got := Count(text, -1)
		if want, err := codec.Count(string(text)); err != nil || got != want {
			t.Errorf("%d tokens, want tokenizer's %d (%v)", got, want, err)
		}
		if want := len(encoding.EncodeOrdinary(string(text))); got != want {
			t.Errorf("%d tokens, want tiktoken-go's %d", got, want)
		}
	}
}

// pathological returns texts of n bytes in few pieces, for which simple merging takes quadratic time.
func pathological(n int) map[string]string {
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, n*3/4)
	random.Read(noise)
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = "etaoinshrdlucmfwypvbgkjqxz"[random.Uint64()%26]
	}
	texts := map[string]string{"base64": base64.StdEncoding.EncodeToString(noise), "letters": string(letters), "bytes": string(noise),
		"spaces": strings.Repeat(" ", n) + "x"}
	for _, unit := range []string{"a", "A", "ab", "abc", "aaaab", "=", "-", "\n", " \n", "\t", "0", "deadbeef01", "qzxjk", "漢字仮名交じり文",
		"한국어", "\u0301", "😀", "'s", "\xff", "\x00", "A\u0301"} {
		texts[unit] = strings.Repeat(unit, n/len(unit))
	}
	return texts
}

// With this many bytes in one piece, a count in quadratic time would practically never end.
func TestCountOfLongRuns(t *testing.T) {
	t.Parallel()
	const n = 256 << 10
	for _, test := range []struct {
		unit string
		want int
	}{{"a", n / 8}, {"=", n / 64}, {" ", n / 128}, {"\n", n / 16}, {"\u0301", n / 2}} {
		if got := Count(bytes.Repeat([]byte(test.unit), n/len(test.unit)), -1); got != test.want {
			t.Errorf("%d bytes of %q have %d tokens, want %d", n, test.unit, got, test.want)
		}
	}
}

func TestConcurrentCount(t *testing.T) {
	t.Parallel()
	text := append(records(10<<10), strings.Repeat("abc", 5000)...)
	want := theOracle().count(t, text[:10<<10])
	whole := Count(text, -1)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 5 {
				if got := Count(text[:10<<10], -1); got != want {
					t.Errorf("%d tokens, want %d", got, want)
				}
				if got := Count(text, whole); got != whole {
					t.Errorf("%d tokens, want %d", got, whole)
				}
			}
		})
	}
	wait.Wait()
}

func TestSample(t *testing.T) {
	t.Parallel()
	texts := map[string][]byte{"records": records(1 << 20), "chinese": chinese(256 << 10)}
	for path, text := range corpora(t) {
		if strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".txt") {
			texts[path] = text
		}
	}
	for name, text := range texts {
		n := Count(text, -1)
		if off := 100 * float64(Sample(text)-n) / float64(n); math.Abs(off) > 5 {
			t.Errorf("%s, of %d bytes: the estimate is %.2f %% off, want at most 5", name, len(text), off)
		}
	}
}

// A sample ends at the end of a character, and invalid UTF-8 does no harm.
func TestSampleOfCharacters(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"é", "漢", "😀", "\x80", "\xf0", "\xff\xbf"} {
		text := bytes.Repeat([]byte(unit), 128<<10/len(unit))
		n := Count(text, -1)
		if off := 100 * float64(Sample(text)-n) / float64(n); math.Abs(off) > 5 {
			t.Errorf("%q: the estimate is %.2f %% off, want at most 5", unit, off)
		}
	}
}
