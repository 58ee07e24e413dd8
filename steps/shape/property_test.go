package shape

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// names are what members are called; dataNames make names that are data, with a marker in them.
var (
	names     = []string{"id", "name", "items", "total", "next_page", "@type", "größe"}
	dataNames = []func(n int) string{
		func(n int) string { return fmt.Sprintf("77%06dMARK", n) },
		func(n int) string { return fmt.Sprintf("MARK%d@example.org", n) },
		func(n int) string { return fmt.Sprintf("/srv/MARK/%d", n) },
		func(n int) string { return fmt.Sprintf("MARK %d", n) },
		func(n int) string { return fmt.Sprintf("https://MARK.example/%d", n) },
		func(n int) string { return fmt.Sprintf("2024-05-01T00:00:%02dZ-MARK", n%60) },
	}
)

// value draws a JSON value in which every string, and every name that is data, holds MARK, and every number 987654.
func value(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "bool")
	case kind == 2:
		return 987654000 + rapid.IntRange(0, 999).Draw(t, "number")
	case kind == 3 || depth == 0:
		return "MARK\"\\{" + rapid.String().Draw(t, "text")
	case kind == 4:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range list {
			list[i] = value(t, depth-1)
		}
		return list
	}
	members := map[string]any{}
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		name := rapid.SampledFrom(names).Draw(t, "name")
		if rapid.IntRange(0, 3).Draw(t, "data") == 0 {
			name = rapid.SampledFrom(dataNames).Draw(t, "form")(rapid.IntRange(0, 1000).Draw(t, "n"))
		}
		members[name] = value(t, depth-1)
	}
	return members
}

// TestNoValueIsKept: whatever results there are, nothing of a value and no name that is data stands in what is kept, the
// schema of a shape without maps says of every result that it is possible, and what is kept is the same when it is read again.
func TestNoValueIsKept(t *testing.T) {
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
		kept := string(f.section().Schema) // it is followed by hashes, which may contain any letters
		if schema := schemaOf(f); strings.Contains(kept, "MARK") || strings.Contains(kept, "987654") || strings.Contains(schema, "MARK") ||
			strings.Contains(schema, "987654") {
			t.Fatalf("%s\n%s", kept, schema)
		}
		if f.root == nil {
			return
		}
		maps := false // an object that is a map in some results only may have lost what was counted below its names
		f.root.walk(0, func(n *node, _ int) { maps = maps || n.others != nil })
		entry := entryOf(t, f)
		for _, result := range results {
			if maps {
				break
			}
			for _, path := range paths(gjson.ParseBytes(result), nil) {
				if missing := entry.UnseenPath(path); missing != nil {
					t.Fatalf("%s: %v in %s\n%s", schemaOf(f), path, result, missing)
				}
			}
		}
		f.dropStored(f.root, f.step(0, "")) // what a map has taken in since it was counted; reading drops it too
		again := newFunction("", []byte("salt"))
		again.join(f.section())
		if schemaOf(again) != schemaOf(f) || string(again.root.schema(nil, true)) != string(f.root.schema(nil, true)) ||
			len(again.pending) != len(f.pending) {
			t.Fatalf("%s became %s", f.root.schema(nil, true), again.root.schema(nil, true))
		}
	})
}

// entryOf is a function that shows what was learnt.
func entryOf(t interface{ Fatal(...any) }, f *function) *steps.Entry {
	r, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "a.b"}, Call: steps.Call(nothing)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r = r.Learn(func(_ *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		return call, f.published.Load
	})
	return r.All()[0]
}

// paths are those of all values in a value.
func paths(value gjson.Result, at []schema.Element) (all [][]schema.Element) {
	all = append(all, at)
	if !value.IsObject() && !value.IsArray() {
		return all
	}
	i := 0
	value.ForEach(func(key, inner gjson.Result) bool {
		element := schema.Element{Key: key.Str}
		if value.IsArray() {
			element = schema.Element{Key: fmt.Sprint(i), Index: true}
			i++
		}
		all = append(all, paths(inner, append(at[:len(at):len(at)], element))...)
		return true
	})
	return all
}
