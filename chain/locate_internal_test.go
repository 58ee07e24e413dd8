package chain

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

// place is where one pointer's value is: the simple way, one after the other.
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

// TestLocateAll: the positions of all faults together are those that each has alone.
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
		t.Errorf("what is too deep to be walked: %d:%d", f.Line, f.Column)
	}
	for at, want := range map[string]int{"/a": 2, "/a/b": 10, "/c/0": 27, "/a/none": 8} { // of an element and a missing key, the value
		f := &fault.Error{At: at, Err: fault.ErrUnknownKey}
		Locate([]byte(`{"a" : { "b":1 }, "c" : [ 1 ]}`), []*fault.Error{f})
		if f.Column != want {
			t.Errorf("the key %s is in column %d, not %d", at, f.Column, want)
		}
	}
	known := &fault.Error{At: "/a", Line: 7}
	Locate([]byte(`{"a":1}`), []*fault.Error{known})
	if known.Line != 7 {
		t.Error("a line that was known")
	}
}
