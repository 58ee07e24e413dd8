package refs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// megabyte is about 1 MB of compact JSON: {"total":…,"items":[…]} with 8,000 items.
func megabyte(tb testing.TB) []byte {
	tb.Helper()
	var b strings.Builder
	b.WriteString(`{"total":8000,"items":[`)
	for i := range 8000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item %d","price":%d.10,"tags":["a","b"],"card":{"symbolId":"s-%d","size":%d,"text":"line\nline"}}`,
			i, i, i, i, i%50)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func compileWhole(tb testing.TB, text string) *Template {
	tb.Helper()
	value, err := json.Marshal(text)
	must(tb, err)
	t, faults := CompileTemplate(value, scope())
	if len(faults) > 0 {
		tb.Fatal(faults[0])
	}
	return t
}

// BenchmarkReference: a path in 1 MB; the baseline is gjson alone.
func BenchmarkReference(b *testing.B) {
	doc := megabyte(b)
	for _, path := range []string{"items[500].name", "items[7999].card.symbolId", "total"} {
		bare := strings.NewReplacer("[", ".", "]", "").Replace(path)
		want := gjson.GetBytes(doc, bare).Raw
		b.Run("gjson/"+path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if gjson.GetBytes(doc, bare).Raw != want {
					b.Fatalf("got %s, want %s", gjson.GetBytes(doc, bare).Raw, want)
				}
			}
		})
		b.Run("refs/"+path, func(b *testing.B) {
			b.ReportAllocs()
			t, s := compileWhole(b, "$0."+path), scopeOf(string(doc))
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = t.Resolve(context.Background(), dst[:0], s); err != nil || string(dst) != want {
					b.Fatalf("Resolve gives %s, %v; want %s", dst, err, want)
				}
			}
		})
	}
}

// BenchmarkTemplate: six references in small results; the baseline decodes, replaces and encodes.
func BenchmarkTemplate(b *testing.B) {
	doc := `{"user":{"id":"u-1","name":"Ann"},"items":[{"id":7,"price":1.10},{"id":8,"price":2.20}],"total":2}`
	args := `{"user":"$0.user.id","first":"$0.items[0].id","second":{"price":"$0.items[1].price"},"list":["$0.total"],` +
		`"text":"${$0.user.name} has ${0.total}","limit":10}`
	want := `{"user":"u-1","first":7,"second":{"price":2.20},"list":[2],"text":"Ann has 2","limit":10}`
	b.Run("refs", func(b *testing.B) {
		b.ReportAllocs()
		t, faults := CompileTemplate([]byte(args), scope())
		if len(faults) > 0 {
			b.Fatal(faults[0])
		}
		s := scopeOf(doc)
		var dst []byte
		for b.Loop() {
			var err error
			if dst, err = t.Resolve(context.Background(), dst[:0], s); err != nil || string(dst) != want {
				b.Fatalf("Resolve gives %s, %v; want %s", dst, err, want)
			}
		}
	})
	b.Run("decode-encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var t, d map[string]any
			if json.Unmarshal([]byte(args), &t) != nil || json.Unmarshal([]byte(doc), &d) != nil {
				b.Fatal("decoding failed")
			}
			items := d["items"].([]any)
			t["user"] = d["user"].(map[string]any)["id"]
			t["first"] = items[0].(map[string]any)["id"]
			t["second"] = map[string]any{"price": items[1].(map[string]any)["price"]}
			t["list"] = []any{d["total"]}
			t["text"] = fmt.Sprintf("%v has %v", d["user"].(map[string]any)["name"], d["total"])
			out, err := json.Marshal(t)
			if err != nil || len(out) != len(want)-1 { // 2.20 has become 2.2
				b.Fatalf("got %s, %v; want %d bytes", out, err, len(want)-1)
			}
		}
	})
}

// BenchmarkArithmetic: sums and products over a list.
func BenchmarkArithmetic(b *testing.B) {
	ctx := context.Background()
	doc := string(megabyte(b))
	for name, source := range map[string]string{
		"map": `len(map($0.items, .id * 2 + 1))`, "sum": `sum($0.items, .id)`, "filter": `len(filter($0.items, .id - 1 > 0))`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			x := compileExpression(b, source)
			s := scopeOf(doc)
			for b.Loop() {
				if _, err := x.Eval(ctx, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
