package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

const grepSchema = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1},"path":{"type":"string","default":"."},
	"limit":{"type":"integer","minimum":1,"maximum":1000,"default":100},"mode":{"enum":["lines","files","counts"]},
	"labels":{"type":"array","items":{"type":"string"},"maxItems":2,"uniqueItems":true},
	"who":{"anyOf":[{"type":"string","pattern":"^@"},{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}]},
	"port":{"oneOf":[{"type":"integer"},{"type":"null"}]},"kind":{"oneOf":[{"const":"a"},{"type":"string","maxLength":3}]}},
	"required":["pattern"],"dependentRequired":{"mode":["path"]},"additionalProperties":false}`

func TestCheckTells(t *testing.T) {
	t.Parallel()
	e, _ := entry(t, grepSchema, "")
	tests := []struct {
		args string
		want []string // "at|message", sorted by place
	}{
		{`{"pattern":"x"}`, nil},
		{`{"pattern":"x","labels":["a","b"],"who":{"id":1},"port":null,"kind":"abc","mode":"files","path":"."}`, nil},
		{`{}`, []string{`|missing "pattern"`}},
		{`{"patern":"x"}`, []string{`/patern|/patern: unknown argument, did you mean "pattern"?`, `|missing "pattern" ("patern" is not an argument of it)`}},
		{`{"pattern":5,"limit":0}`, []string{`/limit|/limit: want at least 1`, `/pattern|/pattern: got number, want string`}},
		{`{"pattern":"x","limit":1.5}`, []string{`/limit|/limit: got number, want integer`}},
		{`{"pattern":"x","limit":1001}`, []string{`/limit|/limit: want at most 1000`}},
		{`{"pattern":""}`, []string{`/pattern|/pattern: has 0 characters, want at least 1`}},
		{`{"pattern":"x","mode":"line","path":"a"}`, []string{`/mode|/mode: got "line", want "lines" or "files" or "counts"`}},
		{`{"pattern":"x","mode":"lines"}`, []string{`|"mode" needs "path" too`}},
		{`{"pattern":"x","labels":["a",1]}`, []string{`/labels/1|/labels/1: got number, want string`}},
		{`{"pattern":"x","labels":["a","a"]}`, []string{`/labels|/labels: the elements 0 and 1 are equal`}},
		{`{"pattern":"x","labels":["a","b","c"]}`, []string{`/labels|/labels: has 3 elements, want at most 2`}},
		{`{"pattern":"x","who":5}`, []string{`/who|/who: got number, want object or string`}},
		{`{"pattern":"x","who":{"id":"1"}}`, []string{`/who|/who: fits none of 2 alternatives: (1) got object, want string; (2) /id: got string, want integer`}},
		{`{"pattern":"x","who":"bob"}`, []string{`/who|/who: fits none of 2 alternatives: (1) does not match the pattern ^@; (2) got string, want object`}},
		{`{"pattern":"x","port":"x"}`, []string{`/port|/port: got string, want integer or null`}},
		{`{"pattern":"x","kind":"a"}`, []string{`/kind|/kind: fits the alternatives 1 and 2, but must fit one only`}},
		{`[]`, []string{`|the arguments are no JSON object`}},
		{`{"pattern":"x","pattern":"y"}`, []string{`/pattern|/pattern: the key "pattern" stands twice`}},
	}
	for _, test := range tests {
		var got []string
		for _, f := range e.Check([]byte(test.args), nil) {
			if f.Code != fault.BadArguments {
				t.Errorf("%s: code %s", test.args, f.Code)
			}
			got = append(got, f.At+"|"+f.Message)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s\n got %q\nwant %q", test.args, got, test.want)
		}
	}
}

func TestCheckSuggests(t *testing.T) {
	t.Parallel()
	e, _ := entry(t, grepSchema, "")
	f := e.Check([]byte(`{"pattern":"x","pth":"."}`), nil)[0]
	if !slices.Contains(f.Available, "path") || len(f.Nearest) == 0 || f.Nearest[0] != "path" {
		t.Errorf("unknown property: %+v", f)
	}
	f = e.Check([]byte(`{}`), nil)[0]
	if !slices.Contains(f.Available, "pattern") {
		t.Errorf("missing property: %+v", f)
	}
	f = e.Check([]byte(`{"pattern":"x","path":".","mode":"line"}`), nil)[0]
	if !slices.Equal(f.Available, []string{"lines", "files", "counts"}) || !slices.Equal(f.Nearest, []string{"lines"}) {
		t.Errorf("enum: %+v", f)
	}
}

// Messages are bounded, stable, and keep to themselves what may be secret.
func TestCheckBounds(t *testing.T) {
	t.Parallel()
	e, _ := entry(t, `{"properties":{"a":{"items":{"type":"integer"}},"b":{"enum":["x"]},"c":{"const":5}},"additionalProperties":false}`, "")
	many := `{"a":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 5000), ",") + `]}`
	faults := e.Check([]byte(many), nil)
	if len(faults) != maxFaults || faults[0].At != "/a/0" || faults[11].At != "/a/11" || !strings.HasSuffix(faults[19].Message, "(and 4980 more)") {
		t.Errorf("%d faults: %v", len(faults), faults)
	}
	secret := strings.Repeat("s", 59) + strings.Repeat("ecret", 100)
	args := fmt.Appendf(nil, `{"b":%q,"c":%q,%q:1}`, secret, secret, secret)
	for range 5 {
		for _, f := range e.Check(args, nil) {
			if strings.Contains(f.Message, "ecret") || len(f.Message) > 300 {
				t.Errorf("the message is %q", f.Message)
			}
		}
	}
	hiding, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Input: e.Spec().Input, Redact: func([]byte) []byte { return nil }}, Call: echo}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range hiding.All()[0].Check([]byte(`{"b":"hunter2","c":"hunter2"}`), nil) {
		if strings.Contains(f.Message, "hunter2") || len(f.Nearest) > 0 {
			t.Errorf("a value is shown: %+v", f)
		}
	}
}

func TestCheckWithHoles(t *testing.T) {
	t.Parallel()
	e, _ := entry(t, `{"type":"object","properties":{
		"s":{"type":"string","enum":["a","b"]},"n":{"type":"number"},"i":{"type":"integer","minimum":5},"p":{"type":"string","pattern":"^x","minLength":3},
		"o":{"type":"object","properties":{"k":{"type":"integer"}},"required":["k"],"additionalProperties":false},
		"l":{"type":"array","items":{"type":"integer"},"maxItems":2,"uniqueItems":true,"contains":{"const":1}},
		"u":{"anyOf":[{"type":"string"},{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}]},
		"x":{"oneOf":[{"type":"integer"},{"type":"number","minimum":3}]},"c":{"const":{"a":1}},"never":false,"not":{"not":{"type":"string"}},
		"if":{"if":{"properties":{"t":{"const":1}}},"then":{"required":["v"]},"else":{"required":["w"]}},
		"un":{"properties":{"a":{"const":1}},"anyOf":[{"properties":{"b":true},"required":["b"]},true],"unevaluatedProperties":false},
		"uk":{"anyOf":[{"properties":{"kind":{"const":"k"},"v":true},"required":["kind"]},true],"unevaluatedProperties":false},
		"ul":{"anyOf":[{"prefixItems":[{"const":"k"},true]},true],"unevaluatedItems":false}},
		"additionalProperties":false,"maxProperties":3}`, "")
	tests := []struct {
		args, at string
		types    []string
		want     string // part of the message of the only fault; "" for none
	}{
		{`{"s":"$0"}`, "/s", nil, ""},
		{`{"s":"$0"}`, "/s", []string{"string"}, ""},
		{`{"s":"$0"}`, "/s", []string{"integer"}, "/s: got number, want string"},
		{`{"s":"$0"}`, "/s", []string{"null", "string"}, ""},
		{`{"s":"$0"}`, "/s", []string{"null", "object"}, "want string"},
		{`{"n":"$0"}`, "/n", []string{"integer"}, ""},
		{`{"i":"$0"}`, "/i", []string{"number"}, ""},
		{`{"i":"$0"}`, "/i", []string{"string"}, "want integer"},
		{`{"i":"$0"}`, "/i", []string{"what"}, ""},
		{`{"p":"a${$0}"}`, "/p", []string{"string"}, ""},
		{`{"o":"$0"}`, "/o", nil, ""},
		{`{"o":"$0"}`, "/o", []string{"object"}, ""},
		{`{"o":"$0"}`, "/o", []string{"array"}, "want object"},
		{`{"o":{"k":"$0"}}`, "/o/k", nil, ""},
		{`{"o":{"k":"$0"}}`, "/o/k", []string{"string"}, "/o/k: got string, want integer"},
		{`{"o":{"j":"$0"}}`, "/o/j", []string{"integer"}, "|"},
		{`{"l":["$0",1]}`, "/l/0", nil, ""},
		{`{"l":["$0",2,3]}`, "/l/0", nil, "has 3 elements"},
		{`{"l":["$0","x"]}`, "/l/0", nil, "/l/1: got string"},
		{`{"l":"$0"}`, "/l", []string{"array"}, ""},
		{`{"u":"$0"}`, "/u", nil, ""},
		{`{"u":"$0"}`, "/u", []string{"integer"}, "got number, want object or string"},
		{`{"u":"$0"}`, "/u", []string{"object"}, ""},
		{`{"u":{"id":"$0"}}`, "/u/id", nil, ""},
		{`{"u":{"id":"$0"}}`, "/u/id", []string{"string"}, "fits none of 2"},
		{`{"u":{"i":"$0"}}`, "/u/i", nil, "fits none of 2"},
		{`{"x":"$0"}`, "/x", []string{"number"}, ""},
		{`{"x":"$0"}`, "/x", []string{"string"}, "want integer or number"},
		{`{"c":"$0"}`, "/c", nil, ""},
		{`{"c":{"a":"$0"}}`, "/c/a", nil, ""},
		{`{"c":"$0"}`, "/c", []string{"array"}, "want"},
		{`{"never":"$0"}`, "/never", nil, "not allowed"},
		{`{"not":"$0"}`, "/not", nil, ""},
		{`{"not":"$0"}`, "/not", []string{"string"}, ""},
		{`{"if":{"t":"$0"}}`, "/if/t", nil, ""},
		{`{"un":{"a":1,"b":"$0"}}`, "/un/b", nil, ""},
		{`{"un":{"a":"$0","z":1}}`, "/un/a", nil, ""},
		{`{"uk":{"kind":"$0","v":1}}`, "/uk/kind", nil, ""},
		{`{"ul":["$0",1]}`, "/ul/0", nil, ""},
		{`{"z":"$0"}`, "/z", nil, "unknown argument"},
		{`{"s":"$0","n":1,"i":7,"x":3.5}`, "/s", nil, "has 4 keys"},
		{`{"s":"$0"}`, "", nil, ""},
		{`{"n":"x"}`, "/s/0/none", nil, "/n: got string"},
	}
	for _, test := range tests {
		var got []string
		for _, f := range e.Check([]byte(test.args), []Hole{{At: test.at, Types: test.types}}) {
			got = append(got, f.Message)
		}
		switch {
		case test.want == "|":
			if len(got) != 2 {
				t.Errorf("%s with %s %v: %q", test.args, test.at, test.types, got)
			}
		case test.want == "" && len(got) > 0, test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)):
			t.Errorf("%s with %s %v: %q, want %q", test.args, test.at, test.types, got, test.want)
		}
	}
}

// schemas draws a schema of a bounded family: all keywords whose violations depend on values, keys or both.
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
			s = map[string]any{"prefixItems": []any{inner.Draw(t, "first")}, "unevaluatedItems": inner.Draw(t, "unevaluated"), "contains": inner.Draw(t, "contains"), "maxContains": 2}
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

// places lists all places of a value but its root, with the type that stands there.
func places(value any, at string, found map[string]string) {
	visit := func(child any, at string) {
		found[at] = typesOf([]any{child}).names()[0]
		places(child, at, found)
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

// If arguments are valid, no choice of places as holes, with or without their types, makes a fault.
func TestCheckIsSound(t *testing.T) {
	t.Parallel()
	const rounds = 20
	var valid, tried atomic.Int64
	for range rounds {
		rapid.Check(t, func(t *rapid.T) { checkIsSound(t, &valid, &tried) })
	}
	if share := float64(valid.Load()) / float64(tried.Load()); share < 0.05 {
		t.Errorf("only %.1f %% of the arguments were valid: the test shows nothing", 100*share)
	}
}

func checkIsSound(t *rapid.T, valid, tried *atomic.Int64) {

	schema, err := json.Marshal(map[string]any{"$defs": map[string]any{"shared": schemas(1).Draw(t, "shared")}, "allOf": []any{schemas(rapid.IntRange(1, 3).Draw(t, "depth")).Draw(t, "schema")}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Input: schema}, Call: echo}}, &RegistryOptions{Warn: func(f *fault.Error) {
		if !strings.Contains(f.Message, "cannot be used") {
			t.Fatalf("%s: %v", schema, f)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := r.All()[0]
	for range 20 {
		value := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), instances(2), 0, 3).Draw(t, "args")
		args, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if tried.Add(1); len(e.Check(args, nil)) > 0 {
			continue
		}
		valid.Add(1)
		all := map[string]string{}
		places(value, "", all)
		var holes []Hole
		for _, at := range slices.Sorted(func(yield func(string) bool) {
			for at := range all {
				if !yield(at) {
					return
				}
			}
		}) {
			switch rapid.IntRange(0, 3).Draw(t, at) {
			case 0:
				holes = append(holes, Hole{At: at})
			case 1:
				holes = append(holes, Hole{At: at, Types: []string{all[at]}})
			}
		}
		if faults := e.Check(args, holes); len(faults) > 0 {
			t.Fatalf("schema %s\nargs %s\nholes %v\nfaults %v", schema, args, holes, faults)
		}
		for _, h := range holes {
			punch(value, tokens(h.At), instances(1).Draw(t, "written"))
		}
		if args, err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
		if faults := e.Check(args, holes); len(faults) > 0 {
			t.Fatalf("schema %s\nargs %s\nholes %v\nfaults %v", schema, args, holes, faults)
		}
	}
}

// punch writes something else at a place.
func punch(value any, at []string, written any) {
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
	f.Add([]byte(`{"properties":{"a":{"$ref":"#"}},"additionalProperties":{"nullable":true,"type":"string"}}`), []byte(`{"a":{"b":1}}`), "/a", "")
	f.Add([]byte(`{"oneOf":[{"type":"file"},{"not":{}}],"exclusiveMinimum":true,"minimum":1e400}`), []byte(`{"a":1e400}`), "/~1", "integer")
	f.Add([]byte(`{"$id":"http://x/y","$defs":{"a":{"$id":"z","$anchor":"q"}},"$ref":"z#q","$dynamicRef":"#q"}`), []byte(`{}`), "", "")
	f.Add([]byte(`{"properties":{"":{}}}`), []byte(`0`), "A", "")
	f.Add([]byte(`{"items":[{}],"additionalItems":false,"dependencies":{"a":["b"],"c":{}}}`), []byte(`{"a":[]}`), "/a/0", "null")
	f.Fuzz(func(t *testing.T, schema, args []byte, at, word string) {
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Input: schema, Output: schema}, Call: echo}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := r.All()[0]
		whole := e.Check(args, nil)
		open := e.Check(args, []Hole{{At: at}})
		typed := e.Check(args, []Hole{{At: at, Types: []string{word}}, {At: "/a/b"}})
		if len(whole) == 0 && len(open) > 0 {
			t.Fatalf("valid arguments have faults with the hole %q: %v", at, open)
		}
		if max(len(whole), len(open), len(typed)) > maxFaults {
			t.Fatalf("%d, %d and %d faults", len(whole), len(open), len(typed))
		}
		for _, f := range slices.Concat(whole, open, typed) {
			if f.Code != fault.BadArguments || f.Message == "" {
				t.Fatalf("fault %+v", f)
			}
		}
		if n := len([]rune(e.Signature())); n > maxSignature {
			t.Fatalf("a signature of %d characters", n)
		}
		types, missing := e.Produces([]Element{{Key: word}, {Key: at, Index: true}})
		if missing != nil && (missing.Code != fault.ReferenceMissing || types != nil) {
			t.Fatalf("Produces gives %v, %v", types, missing)
		}
	})
}
