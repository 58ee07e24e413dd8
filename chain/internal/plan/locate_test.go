package plan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// simplePosition finds the position of the value at a single pointer in the simplest way.
func simplePosition(text []byte, value gjson.Result, at string) (line, column int) {
	offset := value.Index
	for _, token := range pointerTokens(at) {
		i, ok := -1, false
		isArray := value.IsArray()
		if !isArray && !value.IsObject() {
			break
		}
		value.ForEach(func(key, v gjson.Result) bool {
			i++
			if ok = isArray && fmt.Sprint(i) == token || !isArray && key.String() == token; ok {
				value, offset = v, v.Index
			}
			return !ok
		})
		if !ok {
			break
		}
	}
	before := text[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// TestLocateAll: faults that are located together get the same positions as alone.
func TestLocateAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(drawJSON(t, 4))
		root := gjson.ParseBytes(text)
		all := rapid.Permutation(pointers(root, "")).Draw(t, "pointers")
		var list []*fault.Error
		for _, at := range all {
			list = append(list, &fault.Error{At: at})
		}
		Locate(text, list)
		for _, f := range list {
			if line, column := simplePosition(text, root, f.At); f.Line != line || f.Column != column {
				t.Fatalf("%q in %s: %d:%d, want %d:%d", f.At, text, f.Line, f.Column, line, column)
			}
		}
	})
	deep := strings.Repeat("[", 900) + strings.Repeat(" ", 1<<20) + "1" + strings.Repeat("]", 900)
	f := &fault.Error{At: strings.Repeat("/0", 900)}
	Locate([]byte(deep), []*fault.Error{f})
	if f.Line != 1 || f.Column < 50 || f.Column > 100 {
		t.Errorf("position %d:%d below the depth limit, want the deepest value that is searched", f.Line, f.Column)
	}
	for at, want := range map[string]int{"/a": 2, "/a/b": 10, "/c/0": 27, "/a/none": 8} { // an element; for a missing key the value around it
		f := &fault.Error{At: at, Err: fault.ErrUnknownKey}
		Locate([]byte(`{"a" : { "b":1 }, "c" : [ 1 ]}`), []*fault.Error{f})
		if f.Column != want {
			t.Errorf("%s: column %d, want %d", at, f.Column, want)
		}
	}
	known := &fault.Error{At: "/a", Line: 7}
	Locate([]byte(`{"a":1}`), []*fault.Error{known})
	if known.Line != 7 {
		t.Errorf("Locate changed a known line to %d, want 7", known.Line)
	}
}

// drawJSON draws a value that spans several lines.
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

// pointers returns the pointers of all values within a value, and some that do not exist.
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
			b.Fatalf("last fault at %d:%d, want line 1 and at least column %d", last.Line, last.Column, len(text)-20)
		}
	}
}
