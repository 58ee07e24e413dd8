package bpe

import (
	"fmt"
	"go/build"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// records returns about n bytes of compact JSON as services return it, the same each time.
func records(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"router", "switch", "active", "planned", "Frankfurt", "backup", "primary", "uplink", "rack", "customer",
		"maintenance", "überprüft", "naïve", "オフライン"}
	word := func() string { return words[r.IntN(len(words))] }
	text := []byte(`{"count":1000,"next":null,"results":[`)
	for len(text) < n {
		text = fmt.Appendf(text,
			`{"id":%d,"url":"https://example.com/api/dcim/devices/%d/","name":"%s-%s-%02d","serial":"%016x","tags":["%s","%s"],`+
				`"weight":%.2f,"created":"2024-%02d-%02dT%02d:%02d:00Z","enabled":%t,"comments":"The %s of the %s is %s, see \"%s\".\n"},`,
			r.IntN(1e6), r.IntN(1e6), word(), word(), r.IntN(100), r.Uint64(), word(), word(),
			r.Float64()*100, 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(2) == 0, word(), word(), word(), word())
	}
	return append(text, "{}]}"...)
}

func chinese(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	phrases := []string{"系统在执行之前检查整个计划", "每一步的结果保存在服务器上", "返回的答案不会超过预算", "代理只看到一个工具", "失败的步骤可以从原处继续", "参数使用引用", "读取操作同时进行", "写入操作按顺序进行"}
	var text []byte
	for len(text) < n {
		text = append(text, phrases[r.IntN(len(phrases))]...)
		text = append(text, []string{",", "。", "。\n", ":"}[r.IntN(4)]...)
	}
	return text
}

func read(b *testing.B, path string) []byte {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Skipf("the text is missing: %v", err)
	}
	return text
}

func BenchmarkCount(b *testing.B) {
	source := filepath.Join(build.Default.GOROOT, "src")
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	must(b, err)
	for _, corpus := range []struct {
		name string
		text func(b *testing.B) []byte
	}{
		{"json", func(*testing.B) []byte { return records(512 << 10) }},
		{"chains", func(b *testing.B) []byte { return read(b, "../../../shared/data/taubench.jsonl") }},
		{"prose", func(b *testing.B) []byte {
			return read(b, filepath.Join(source, "testdata", "Isaac.Newton-Opticks.txt"))
		}},
		{"go", func(b *testing.B) []byte { return read(b, filepath.Join(source, "net", "http", "server.go")) }},
		{"cjk", func(*testing.B) []byte { return chinese(128 << 10) }},
	} {
		b.Run(corpus.name, func(b *testing.B) {
			text := corpus.text(b)
			want, err := codec.Count(string(text))
			must(b, err)
			b.Run("onecall", func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if n := Count(text, -1); n != want {
						b.Fatalf("%d tokens, want %d", n, want)
					}
				}
			})
			b.Run("tokenizer", func(b *testing.B) {
				s := string(text)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if n, err := codec.Count(s); err != nil || n != want {
						b.Fatalf("%d tokens (%v), want %d", n, err, want)
					}
				}
			})
		})
	}
}

// BenchmarkLimit checks whether a text is within 8,000 tokens. The baseline counts all tokens of the text.
func BenchmarkLimit(b *testing.B) {
	const limit = 8000
	for _, size := range []int{64 << 10, 512 << 10, 4 << 20} {
		text := records(size)
		for _, arm := range []struct {
			name  string
			limit int
		}{{"limit", limit}, {"whole", -1}} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, arm.name), func(b *testing.B) {
				for b.Loop() {
					if n := Count(text, arm.limit); n <= limit {
						b.Fatalf("%d tokens, want more than %d", n, limit)
					}
				}
			})
		}
	}
}

// BenchmarkSample estimates the tokens of a text of 4 MiB. The baseline counts all tokens of the text.
func BenchmarkSample(b *testing.B) {
	text := records(4 << 20)
	want := Count(text, -1)
	for name, count := range map[string]func() int{"sample": func() int { return Sample(text) },
		"whole": func() int { return Count(text, -1) }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n := count(); n < want*95/100 || n > want*105/100 {
					b.Fatalf("%d sampled tokens, the text has %d", n, want)
				}
			}
		})
	}
}
