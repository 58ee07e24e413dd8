package shape

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
)

// TestNoValueIsStored: whatever the results, the stored shape contains no part of a value and no name that is data. The schema of a shape
// without maps allows every result, and a stored shape is the same when it is read again.
func TestNoValueIsStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFunction("", []byte("salt"))
		var results [][]byte
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			result, err := json.Marshal(value(t, 5))
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, result)
			f.observe(result, rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(t, "caller"))
		}
		stored := string(f.section().Schema) // it is followed by hashes, which may contain any letters
		if schema := schemaOf(f); strings.Contains(stored, "MARK") || strings.Contains(stored, "987654") || strings.Contains(schema, "MARK") ||
			strings.Contains(schema, "987654") {
			t.Fatalf("the shape contains a value:\n%s\n%s", stored, schema)
		}
		if f.root == nil {
			return
		}
		maps := false // an object that is a map in only some results may have lost counts below its names
		f.root.walk(0, func(n *node, _ int) { maps = maps || n.others != nil })
		entry := entryOf(t, f)
		for _, result := range results {
			if maps {
				break
			}
			for _, path := range paths(gjson.ParseBytes(result), nil) {
				if missing := entry.UnseenPath(path); missing != nil {
					t.Fatalf("shape %s misses the path %v of the result %s:\n%s", schemaOf(f), path, result, missing)
				}
			}
		}
		f.dropStored(f.root, f.childPath(0, "")) // the names that became part of a map later; reading drops them too
		again := newFunction("", []byte("salt"))
		again.join(f.section())
		if schemaOf(again) != schemaOf(f) || string(again.root.appendSchema(nil, true)) != string(f.root.appendSchema(nil, true)) ||
			len(again.pending) != len(f.pending) {
			t.Fatalf("%s is read again as %s, want the same", f.root.appendSchema(nil, true), again.root.appendSchema(nil, true))
		}
	})
}

// entryOf returns a function with the learned shape.
func entryOf(t interface{ Fatal(...any) }, f *function) *steps.Entry {
	r, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "a.b"}, Call: steps.Call(returnNull)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r = r.Learn(func(_ *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		return call, f.published.Load
	})
	return r.All()[0]
}
