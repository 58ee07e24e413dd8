package openapi

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func jsonValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		maximum := 5
		if depth == 0 {
			maximum = 3
		}
		switch rapid.IntRange(0, maximum).Draw(t, "kind") {
		case 0:
			return rapid.String().Draw(t, "text")
		case 1:
			return float64(rapid.IntRange(-1000, 1000).Draw(t, "number"))
		case 2:
			return rapid.Bool().Draw(t, "flag")
		case 3:
			return nil
		case 4:
			return rapid.SliceOfN(jsonValue(depth-1), 0, 4).Draw(t, "list")
		}
		// There are few names, so that large objects, escapes and duplicates occur.
		name := rapid.OneOf(rapid.StringMatching(`[ab~/%"\\é]{0,3}`), rapid.StringMatching(`k[0-9]{1,2}`))
		return rapid.MapOfN(name, jsonValue(depth-1), 0, 40).Draw(t, "object")
	})
}

// A tree has the values that encoding/json reads, finds each by its pointer, and writes the same value compactly.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := jsonValue(3).Draw(t, "value")
		text, err := json.MarshalIndent(want, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parseTree(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		compact := jsontext.Value(strings.Clone(string(text)))
		if err := compact.Compact(); err != nil {
			t.Fatal(err)
		}
		if got := string(tree.root().appendCompact(nil)); got != string(compact) {
			t.Fatalf("got  %s\nwant %s", got, compact)
		}
		checkPointers(t, tree.root(), tree, want, "")
	})
}

func checkPointers(t *rapid.T, v value, tree *tree, want any, pointer string) {
	if target := tree.root().pointer(pointer); target != v {
		t.Fatalf("the pointer %q does not find its value", pointer)
	}
	switch want := want.(type) {
	case map[string]any:
		count := 0
		for name, member := range v.members() {
			count++
			inner, ok := want[name]
			if !ok || v.get(name) != member {
				t.Fatalf("the member %q is not found", name)
			}
			escaped := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25").Replace(name)
			checkPointers(t, member, tree, inner, pointer+"/"+escaped)
		}
		if count != len(want) || v.get("not there").ok() {
			t.Fatalf("got %d members, want %d", count, len(want))
		}
	case []any:
		for i, element := range v.elements() {
			checkPointers(t, element, tree, want[i], pointer+"/"+itoa(i))
		}
	default:
		var got any
		if err := json.Unmarshal(v.raw(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if s, ok := want.(string); ok && v.text() != s {
			t.Fatalf("got the text %q, want %q", v.text(), s)
		}
	}
}

func itoa(i int) string {
	text, _ := json.Marshal(i)
	return string(text)
}

// A name is not confused with another name whose escaped form looks the same.
func TestEscapedNames(t *testing.T) {
	t.Parallel()
	tree, err := parseTree([]byte(`{"\\":2,"\\\\":1,"\u0061":3,"\u0062":4,"\"":5}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{`\\`: "1", `\`: "2", `a`: "3", `b`: "4", `"`: "5", `\u0061`: ""} {
		if got := string(tree.root().get(name).raw()); got != want {
			t.Errorf("member %q: got %s, want %s", name, got, want)
		}
	}
}

// The last of several members with one name counts, in small objects and in large ones.
func TestRepeatedMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-f]{1,2}`), 0, 60).Draw(t, "names")
		var segments []string
		want := map[string]int{}
		for i, name := range names {
			segments = append(segments, `"`+name+`":`+itoa(i))
			want[name] = i
		}
		tree, err := parseTree([]byte("{" + strings.Join(segments, ",") + "}"))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]int
		written := tree.root().appendCompact(nil)
		if err := json.Unmarshal(written, &got); err != nil || !reflect.DeepEqual(got, want) || !jsontext.Value(written).IsValid() {
			t.Fatalf("got %s, want %v", written, want)
		}
		for name, i := range want {
			if string(tree.root().get(name).raw()) != itoa(i) {
				t.Fatalf("member %s: got %s, want %d", name, tree.root().get(name).raw(), i)
			}
		}
		if (len(tree.duplicates) > 0) != (len(want) < len(names)) {
			t.Fatalf("%d repeated names, but reported duplicates %v", len(names)-len(want), tree.duplicates)
		}
	})
}

// JSON that is read as YAML gives the same JSON.
func TestYAMLIsReadAsJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: 1\nb: 1.10\nc: 0x1F\nd: 1_000\ne: .inf\nf: -0.5\ng: +1\n": `{"a":1,"b":1.10,"c":31,"d":1000,"e":".inf","f":-0.5,"g":1}`,
		"a: yes\nb: on\nc: true\nd: ~\ne:\nf: 'null'\ng: " +
			"2020-01-01\n": `{"a":"yes","b":"on","c":true,"d":null,"e":null,"f":"null","g":"2020-01-01"}`,
		"200: a\ntrue: b\n'1': {c: [1, [2]]}\n": `{"200":"a","true":"b","1":{"c":[1,[2]]}}`,
		"a: &x {b: 1, c: 2}\nd: *x\ne: {<<: *x, c: 3}\nf: {'<<': 1}\n": `{"a":{"b":1,"c":2},"d":{"b":1,"c":2},"e":{"c":3,"b":1},` +
			`"f":{"<<":1}}`,
		"a: |\n  two\n  lines\nb: \"\\u00e9\\n\"\nc: 12345678901234567890\n": `{"a":"two\nlines\n","b":"é\n","c":12345678901234567890}`,
		"- a\n-\n- {}\n": `["a",null,{}]`,
		"a: &x [1]\nb: [*x, *x]\n? &k key\n: 1\n":       `{"a":[1],"b":[[1],[1]],"key":1}`,
		"e: {<<: [{a: 1, b: 1}, {b: 2, c: 2}], c: 3}\n": `{"e":{"c":3,"a":1,"b":1}}`,
	} {
		got, err := yamlToJSON([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%q\ngot  %s %v\nwant %s", text, got, err, want)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab.*?A]{0,8}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[abA.]{0,8}`).Draw(t, "text")
		expression := "(?is)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) + "$"
		if got, want := glob(pattern, text), regexp.MustCompile(expression).MatchString(text); got != want {
			t.Fatalf("glob(%q, %q) = %t, want %t", pattern, text, got, want)
		}
	})
}
