package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// schemas generates schemas with all keywords whose violations depend on values, keys or both.
func schemas(depth int) *rapid.Generator[any] {
	small := rapid.IntRange(0, 3)
	leaf := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 6).Draw(t, "leaf") {
		case 0:
			return map[string]any{"type": "integer", "minimum": small.Draw(t, "minimum")}
		case 1:
			return map[string]any{"type": []any{"string", "null"}, "maxLength": small.Draw(t, "length")}
		case 2:
			return map[string]any{"enum": []any{1, "a", nil, []any{1}, map[string]any{"a": 1}}}
		case 3:
			return map[string]any{"const": rapid.SampledFrom([]any{1, "a", map[string]any{"a": 1}, []any{1, "a"}}).Draw(t, "const")}
		case 4:
			return map[string]any{"type": rapid.SampledFrom(jsonTypes).Draw(t, "type")}
		case 5:
			return rapid.Bool().Draw(t, "bool")
		}
		return map[string]any{"type": "string", "pattern": "^[ab]*$"}
	})
	if depth == 0 {
		return leaf
	}
	inner := schemas(depth - 1)
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	object := rapid.Custom(func(t *rapid.T) any {
		s := map[string]any{"properties": rapid.MapOfN(name, inner, 0, 3).Draw(t, "properties")}
		if rapid.Bool().Draw(t, "object") {
			s["type"] = "object"
		}
		extra := map[string]func() any{
			"required":              func() any { return rapid.SliceOfNDistinct(name, 0, 2, rapid.ID[string]).Draw(t, "required") },
			"additionalProperties":  func() any { return inner.Draw(t, "additional") },
			"patternProperties":     func() any { return map[string]any{"[ab]": inner.Draw(t, "patterned")} },
			"minProperties":         func() any { return small.Draw(t, "least") },
			"maxProperties":         func() any { return small.Draw(t, "most") },
			"propertyNames":         func() any { return map[string]any{"enum": []any{"a", "b"}} },
			"dependentRequired":     func() any { return map[string]any{"a": []any{"b"}} },
			"dependentSchemas":      func() any { return map[string]any{"a": inner.Draw(t, "dependent")} },
			"unevaluatedProperties": func() any { return inner.Draw(t, "unevaluated") },
		}
		for _, keyword := range slices.Sorted(func(yield func(string) bool) {
			for keyword := range extra {
				if !yield(keyword) {
					return
				}
			}
		}) {
			if rapid.IntRange(0, 4).Draw(t, keyword) == 0 {
				s[keyword] = extra[keyword]()
			}
		}
		return s
	})
	array := rapid.Custom(func(t *rapid.T) any {
		s := map[string]any{"type": "array", "items": inner.Draw(t, "items")}
		switch rapid.IntRange(0, 5).Draw(t, "array") {
		case 0:
			s["uniqueItems"] = true
		case 1:
			s["contains"], s["minContains"] = inner.Draw(t, "contains"), small.Draw(t, "minContains")
		case 2:
			s["maxItems"] = small.Draw(t, "maxItems")
		case 3:
			s["prefixItems"] = []any{inner.Draw(t, "first")}
		case 4:
			s = map[string]any{"prefixItems": []any{inner.Draw(t, "first")}, "unevaluatedItems": inner.Draw(t, "unevaluated"),
				"contains": inner.Draw(t, "contains"), "maxContains": 2}
		}
		return s
	})
	composed := rapid.Custom(func(t *rapid.T) any {
		list := func() any { return rapid.SliceOfN(inner, 1, 3).Draw(t, "branches") }
		switch keyword := rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf", "not", "if", "$ref"}).Draw(t, "keyword"); keyword {
		case "not":
			return map[string]any{"not": inner.Draw(t, "not")}
		case "if":
			return map[string]any{"if": inner.Draw(t, "if"), "then": inner.Draw(t, "then"), "else": inner.Draw(t, "else")}
		case "$ref":
			return map[string]any{"$ref": "#/$defs/shared", "anyOf": list()}
		default:
			return map[string]any{keyword: list()}
		}
	})
	return rapid.OneOf(leaf, object, array, composed)
}

func instances(depth int) *rapid.Generator[any] {
	leaf := rapid.SampledFrom([]any{nil, true, 0, 1, 2, 3, 1.5, "", "a", "ab", "xyz"})
	if depth == 0 {
		return leaf
	}
	inner := instances(depth - 1)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(inner, 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), inner, 0, 3), func(m map[string]any) any { return m }))
}

// collectPointers lists all positions of a value except its root, with their types.
func collectPointers(value any, at string, out map[string]string) {
	visit := func(child any, at string) {
		out[at] = typesOf([]any{child}).names()[0]
		collectPointers(child, at, out)
	}
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			visit(child, fault.Key(at, key))
		}
	case []any:
		for i, child := range v {
			visit(child, fault.Index(at, i))
		}
	}
}

// If arguments are valid, no choice of unknown positions, with or without their types, causes a fault.
func TestCheckIsSound(t *testing.T) {
	t.Parallel()
	const rounds = 20
	var valid, checked atomic.Int64
	for range rounds {
		rapid.Check(t, func(t *rapid.T) { checkIsSound(t, &valid, &checked) })
	}
	if share := float64(valid.Load()) / float64(checked.Load()); share < 0.05 {
		t.Errorf("%.1f %% of the arguments were valid, want at least 5", 100*share)
	}
}

func checkIsSound(t *rapid.T, valid, checked *atomic.Int64) {

	schema, err := json.Marshal(map[string]any{"$defs": map[string]any{"shared": schemas(1).Draw(t, "shared")},
		"allOf": []any{schemas(rapid.IntRange(1, 3).Draw(t, "depth")).Draw(t, "schema")}})
	if err != nil {
		t.Fatal(err)
	}
	e, warnings := entry(string(schema), "")
	if len(warnings) > 0 && !strings.Contains(warnings[0], "cannot be used") {
		t.Fatalf("%s: warnings %v, want only that a part cannot be used", schema, warnings)
	}
	for range 20 {
		value := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), instances(2), 0, 3).Draw(t, "args")
		args, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if checked.Add(1); len(e.Check(args, nil)) > 0 {
			continue
		}
		valid.Add(1)
		all := map[string]string{}
		collectPointers(value, "", all)
		var unknowns []Unknown
		for _, at := range slices.Sorted(func(yield func(string) bool) {
			for at := range all {
				if !yield(at) {
					return
				}
			}
		}) {
			switch rapid.IntRange(0, 3).Draw(t, at) {
			case 0:
				unknowns = append(unknowns, Unknown{At: at})
			case 1:
				unknowns = append(unknowns, Unknown{At: at, Types: []string{all[at]}})
			}
		}
		if faults := e.Check(args, unknowns); len(faults) > 0 {
			t.Fatalf("schema %s\nargs %s\nunknowns %v\nfaults %v, want none", schema, args, unknowns, faults)
		}
		for _, h := range unknowns {
			replaceAt(value, splitPointer(h.At), instances(1).Draw(t, "written"))
		}
		if args, err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
		if faults := e.Check(args, unknowns); len(faults) > 0 {
			t.Fatalf("schema %s\nargs %s\nunknowns %v\nfaults %v, want none", schema, args, unknowns, faults)
		}
	}
}

// replaceAt writes another value at a position.
func replaceAt(value any, at []string, written any) {
	for i, token := range at {
		switch v := value.(type) {
		case map[string]any:
			if i == len(at)-1 {
				v[token] = written
			}
			value = v[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n >= len(v) {
				return
			}
			if i == len(at)-1 {
				v[n] = written
			}
			value = v[n]
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(grepSchema), []byte(`{"pattern":"x","labels":["a",1]}`), "/labels/1", "string")
	f.Add([]byte(`{"properties":{"a":{"$ref":"#"}},"additionalProperties":{"nullable":true,"type":"string"}}`), []byte(`{"a":{"b":1}}`),
		"/a", "")
	f.Add([]byte(`{"oneOf":[{"type":"file"},{"not":{}}],"exclusiveMinimum":true,"minimum":1e400}`), []byte(`{"a":1e400}`), "/~1", "integer")
	f.Add([]byte(`{"$id":"http://x/y","$defs":{"a":{"$id":"z","$anchor":"q"}},"$ref":"z#q","$dynamicRef":"#q"}`), []byte(`{}`), "", "")
	f.Add([]byte(`{"properties":{"":{}}}`), []byte(`0`), "A", "")
	f.Add([]byte(`{"items":[{}],"additionalItems":false,"dependencies":{"a":["b"],"c":{}}}`), []byte(`{"a":[]}`), "/a/0", "null")
	f.Fuzz(func(t *testing.T, schema, args []byte, at, word string) {
		e, _ := entry(string(schema), string(schema))
		whole := e.Check(args, nil)
		open := e.Check(args, []Unknown{{At: at}})
		typed := e.Check(args, []Unknown{{At: at, Types: []string{word}}, {At: "/a/b"}})
		if len(whole) == 0 && len(open) > 0 {
			t.Fatalf("valid arguments have faults if %q is unknown: %v", at, open)
		}
		if max(len(whole), len(open), len(typed)) > maxFaults {
			t.Fatalf("got %d, %d and %d faults, want at most 20 each", len(whole), len(open), len(typed))
		}
		for _, f := range slices.Concat(whole, open, typed) {
			if f.Code != fault.BadArguments || f.Message == "" {
				t.Fatalf("fault %+v, want bad_arguments with a message", f)
			}
		}
		if n := len([]rune(e.Signature())); n > maxSignature {
			t.Fatalf("the signature has %d characters, want at most %d", n, maxSignature)
		}
		types, missing := e.Produces([]Element{{Key: word}, {Key: at, Index: true}})
		if missing != nil && (missing.Code != fault.ReferenceMissing || types != nil) {
			t.Fatalf("Produces = %v, %v; want either types or reference_missing", types, missing)
		}
	})
}
