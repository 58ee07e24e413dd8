package chain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// drawJSON draws a value, spread over lines.
func drawJSON(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", " ", "\n", "\n\t"}).Draw(t, "space")
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 {
		kind %= 2
	}
	switch kind {
	case 0:
		return space + rapid.SampledFrom([]string{`1`, `"ä\n"`, `null`, `"x"`, `{}`, `[]`}).Draw(t, "leaf")
	case 1:
		return space + `"` + rapid.SampledFrom([]string{"ü", "", "/", "日本"}).Draw(t, "text") + `"` + space
	}
	var pieces []string
	for i := range rapid.IntRange(0, 4).Draw(t, "n") {
		piece := drawJSON(t, depth-1)
		if kind == 3 {
			piece = fmt.Sprintf(`%s"%s%d":%s`, space, rapid.SampledFrom([]string{"k", "a/b", "~", "é", `\u00e9`}).Draw(t, "key"), i, piece)
		}
		pieces = append(pieces, piece)
	}
	if kind == 3 {
		return space + "{" + strings.Join(pieces, ",") + space + "}"
	}
	return space + "[" + strings.Join(pieces, ",") + space + "]"
}

// pointers are those of all values within one, and of some that are not there.
func pointers(value gjson.Result, at string) []string {
	list := []string{at, at + "/nope", at + "/7/x"}
	if !value.IsArray() && !value.IsObject() {
		return list
	}
	i := 0
	value.ForEach(func(key, v gjson.Result) bool {
		child := fault.Key(at, key.String())
		if value.IsArray() {
			child = fault.Index(at, i)
			i++
		}
		list = append(list, pointers(v, child)...)
		return true
	})
	return list
}

// BenchmarkLocateAll finds three faults in each of a thousand steps.
func BenchmarkLocateAll(b *testing.B) {
	text := []byte(`{"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"a.b","args":{"x":"$9.x","y":[1,2,3]},"when":"a +"},`, 1000),
		",") + `]}`)
	b.ReportAllocs()
	for b.Loop() {
		var list []*fault.Error
		for i := range 1000 {
			for _, field := range []string{"/fn", "/args/x", "/when"} {
				list = append(list, &fault.Error{At: fault.Index("/steps", i) + field})
			}
		}
		Locate(text, list)
		if last := list[len(list)-1]; last.Line != 1 || last.Column < len(text)-20 {
			b.Fatal(last.Line, last.Column)
		}
	}
}
