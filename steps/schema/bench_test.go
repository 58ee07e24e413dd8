package schema

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

var benchArgs = []byte(`{"pattern":"func main","path":"cmd","limit":50,"mode":"files","labels":["a","b"],"who":{"id":7}}`)

func BenchmarkCheck(b *testing.B) {
	e, _ := entry(grepSchema, "")
	args := []byte(`{"pattern":"$0.name","path":"a/${$1.dir}","limit":"$0.n","labels":["a","$2"]}`)
	unknowns := []Unknown{{At: "/pattern"}, {At: "/path", Types: []string{"string"}}, {At: "/limit", Types: []string{"integer"}},
		{At: "/labels/1"}}
	b.ReportAllocs()
	for b.Loop() {
		if faults := e.Check(args, unknowns); len(faults) != 0 {
			b.Fatal(faults)
		}
	}
}

func BenchmarkSignature(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if text := Signature("fs.grep", []byte(grepSchema), ": ", nil); !strings.HasPrefix(text, "fs.grep(pattern: string, ") {
			b.Fatalf("got %s, want fs.grep(pattern: string, …", text)
		}
	}
}

// BenchmarkCompact compacts 1 MB; the baseline is the standard library.
func BenchmarkCompact(b *testing.B) {
	tight := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"some text \"here\"","on":true},`, 20_000), ",") + "]")
	var loose bytes.Buffer
	if err := json.Indent(&loose, tight, "", "  "); err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string][]byte{"tight": tight, "loose": loose.Bytes()} {
		b.Run("encoding json "+name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				var out bytes.Buffer
				if err := json.Compact(&out, value); err != nil || out.Len() != len(tight) {
					b.Fatalf("%d bytes, %v; want %d", out.Len(), err, len(tight))
				}
			}
		})
		b.Run("onecall "+name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if out, err := Compact(value); err != nil || len(out) != len(tight) {
					b.Fatalf("%d bytes, %v; want %d", len(out), err, len(tight))
				}
			}
		})
	}
}
