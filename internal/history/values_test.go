package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/secret"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("[", maxDiffDepth) + "%d" + strings.Repeat("]", maxDiffDepth)
	deep := fmt.Sprintf(strings.Replace(half, "%d", "%s", 1), half)
	for _, test := range []struct{ a, b, want string }{
		{`1`, `1.0`, ``},
		{`{"a":1,"b":[]}`, `{"b":[],"a":1e0}`, ``},
		{`12345678901234567890`, `12345678901234567891`, `: 12345678901234567890 12345678901234567891`},
		{`"a"`, `null`, `: "a" null`},
		{`{"a":1}`, `[1]`, `: {"a":1} [1]`},
		{`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, `/a~1b/~0: 1 2`},
		{`{"a":1,"b":2}`, `{"b":2,"c":null}`, `/a: 1 ; /c:  null`},
		{`[1,2,3]`, `[1,9,2,3]`, `/1:  9`},
		{`[1,2,3,4]`, `[1,4]`, `/1: 2 ; /2: 3 `},
		{`[{"n":1},{"n":2},{"n":3}]`, `[{"n":1},{"n":5},{"n":3}]`, `/1/n: 2 5`},
		{`{"":1}`, `{"":2}`, `/: 1 2`},
		{`{"a":{"secret":"AAAAAAAAAAAAAAAAAAAAAAAA"}}`, `{"a":{"secret":"BBBBBBBBBBBBBBBBBBBBBBBB"}}`, ``},
		{`{"a":"[redacted]"}`, `{"a":{"secret":"BBBBBBBBBBBBBBBBBBBBBBBB"}}`, ``},
		{`{"a":{"secret":"why"}}`, `{"a":{"secret":"not"}}`, `/a/secret: "why" "not"`},
		{fmt.Sprintf(deep, 1), fmt.Sprintf(deep, 2), strings.Repeat("/0", 100) + ": " + fmt.Sprintf(half, 1) + " " + fmt.Sprintf(half, 2)},
	} {
		var got []string
		for _, d := range differences(comparableValue([]byte(test.a)), comparableValue([]byte(test.b))) {
			got = append(got, fmt.Sprintf("%s: %s %s", d.At, d.A, d.B))
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s against %s:\n%s\nwant\n%s", test.a, test.b, strings.Join(got, "; "), test.want)
		}
	}
}

// TestRandomDifferences: values have differences if and only if they are not equal, and both have the values of each difference there.
func TestRandomDifferences(t *testing.T) {
	t.Parallel()
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		plain := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.IntRange(0, 2), func(n int) any { return n }),
			rapid.Map(rapid.SampledFrom([]string{"", "a/b", "é~"}), func(s string) any { return s }))
		if depth == 0 {
			return plain
		}
		return rapid.OneOf(plain, rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"", "a", "a/b", "~"}), value(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, _ := json.Marshal(value(3).Draw(t, "a"))
		b, _ := json.Marshal(value(3).Draw(t, "b"))
		list := differences(a, b)
		if equal := string(canonical(a)) == string(canonical(b)); equal != (len(list) == 0) {
			t.Fatalf("%s and %s: got differences %+v, want some only if they are not equal", a, b, list)
		}
		for _, d := range list {
			if len(d.A) > 0 && len(d.B) > 0 && string(canonical(d.A)) == string(canonical(d.B)) {
				t.Fatalf("%s and %s have a false difference at %q: %+v", a, b, d.At, d)
			}
			for _, side := range []struct{ whole, piece []byte }{{a, d.A}, {b, d.B}} {
				if len(side.piece) > 0 && !slices.Contains(partsOf(side.whole), string(canonical(side.piece))) {
					t.Fatalf("the reported value %s is not in %s", side.piece, side.whole)
				}
			}
		}
	})
}

// partsOf returns a value and all values in it.
func partsOf(value []byte) (all []string) {
	var v any
	_ = json.Unmarshal(value, &v)
	var walk func(v any)
	walk = func(v any) {
		text, _ := json.Marshal(v)
		all = append(all, string(canonical(text)))
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return all
}

// TestDifferencesAreBounded: two long values with nothing in common have a limited number of differences.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	long := func(n int) []byte { return []byte("[" + strings.Repeat(fmt.Sprintf("%d,", n), 9999) + "0]") }
	if list := differences(long(1), long(2)); len(list) != maxDifferences {
		t.Errorf("%d differences, want %d", len(list), maxDifferences)
	}
}

// TestValuesWithoutSecrets: neither secrets of the configuration nor members named like a secret are shown.
func TestValuesWithoutSecrets(t *testing.T) {
	t.Parallel()
	scrubber := secret.New([]string{"correct horse"})
	v := newValues([]byte(`{"password":"p","next_token":"n","text":"a correct horse"}`), []byte(`[{"client_secret":"s"},"correct horse"]`),
		scrubber)
	args, result := `{"password":"[redacted]","next_token":"n","text":"a [redacted]"}`, `[{"client_secret":"[redacted]"},"[redacted]"]`
	if string(v.Args) != args || string(v.Result) != result {
		t.Errorf("got arguments %s, result %s, want %s, %s", v.Args, v.Result, args, result)
	}
	if newValues(nil, nil, scrubber) != nil {
		t.Error("newValues without arguments and result is not nil")
	}
}
