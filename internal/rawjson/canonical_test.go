package rawjson_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

func canonicalText(t interface{ Fatalf(string, ...any) }, value string) string {
	text, err := rawjson.AppendCanonical(nil, rawjson.AppendCompact(nil, []byte(value)))
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return string(text)
}

func TestEqualValues(t *testing.T) {
	t.Parallel()
	groups := [][]string{
		{`1`, `1.0`, `1e0`, `1E+0`, `10e-1`, `0.1e1`, `100e-00002`, `0.00001e5`},
		{`-1`, `-1.0`},
		{`0`, `-0`, `0.00`, `0e99`, `-0.0e-5`},
		{`717897987691852588770249`, `7.17897987691852588770249e23`},
		{`717897987691852588770250`, `71789798769185258877025e1`},
		{`1e999999999999999999999`, `10e999999999999999999998`, `0.1e1000000000000000000000`},
		{`1e-999999999999999999999`},
		{`9007199254740993`}, {`9007199254740992`, `9007199254740992.0`},
		{`0.1`, `1e-1`}, {`0.10000000000000001`},
		{`"é"`, `"\u00e9"`, `"\u00E9"`}, {`"e\u0301"`},
		{`"a/\""`, `"a\/\u0022"`}, {`"\n"`, `"\u000a"`}, {`"\u0000"`}, {`"1"`}, {`""`}, {`"😀"`, `"\ud83d\ude00"`},
		{`"\ufffdA"`, `"\ud800\u0041"`}, {`"\ufffdB"`, `"\ud800\u0042"`}, // a lone surrogate
		{`{}`, ` { } `}, {`[]`}, {`null`}, {`true`}, {`false`},
		{`{"a":1,"b":[{"d":1,"c":2}]}`, `{"b":[{"c":2.0,"d":1}],"\u0061":1}`},
		{`{"b":1,"a":[{"d":1,"c":2}]}`},
		{`[1,2]`, `[ 1.0, 2 ]`}, {`[2,1]`}, {`[[1],2]`}, {`[1,[2]]`},
		{`{"a":null}`}, {`{"":1}`}, {`{"a":{"b":{}}}`},
	}
	seen := map[string]string{}
	for _, group := range groups {
		want := canonicalText(t, group[0])
		if other, ok := seen[want]; ok {
			t.Errorf("different values %s and %s have the same canonical form", other, group[0])
		}
		seen[want] = group[0]
		for _, value := range group {
			if got := canonicalText(t, value); got != want {
				t.Errorf("%s: got %s, want %s, as for %s", value, got, want, group[0])
			}
		}
	}
}

// TestCanonicalOfInvalid: a byte that cannot begin a value of compact JSON is an error, wherever it is; nothing loops
// forever.
func TestCanonicalOfInvalid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{" 1", "[ 1]", "[1, 2]", `{"a": 1}`, "x", "[x]"} {
		if got, err := rawjson.AppendCanonical(nil, []byte(text)); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

// TestCanonicalAgainstModel compares with decoding by encoding/json, numbers as exact fractions.
func TestCanonicalAgainstModel(t *testing.T) {
	t.Parallel()
	var value *rapid.Generator[any]
	number := rapid.Custom(func(t *rapid.T) any {
		return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number"))
	})
	text := rapid.Custom(func(t *rapid.T) any { return rapid.StringN(0, 3, -1).Draw(t, "text") })
	value = rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return rapid.SliceOfN(value, 0, 3).Draw(t, "array")
		case 1:
			return rapid.MapOfN(rapid.StringN(0, 2, -1), value, 0, 3).Draw(t, "object")
		case 2:
			return text.Draw(t, "string")
		case 3:
			return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "word")
		}
		return number.Draw(t, "number")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, err := json.Marshal(value.Draw(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(value.Draw(t, "b"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "same value") {
			b = a
		}
		got := canonicalText(t, string(a)) == canonicalText(t, string(b))
		if want := equal(decode(t, a), decode(t, b)); got != want {
			t.Fatalf("%s and %s: same canonical form %v, want %v", a, b, got, want)
		}
		canonical := canonicalText(t, string(a))
		if !equal(decode(t, a), decode(t, []byte(canonical))) {
			t.Fatalf("the canonical form of %s is %s, want the same value", a, canonical)
		}
		if again := canonicalText(t, canonical); again != canonical {
			t.Fatalf("the canonical form of the canonical %s is %s, want no change", canonical, again)
		}
	})
}

func decode(t *rapid.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := new(big.Rat).SetString(a.String())
		y, _ := new(big.Rat).SetString(n.String())
		return x.Cmp(y) == 0
	case []any:
		array, ok := b.([]any)
		if !ok || len(a) != len(array) {
			return false
		}
		for i := range a {
			if !equal(a[i], array[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := b.(map[string]any)
		if !ok || len(a) != len(object) {
			return false
		}
		for key, value := range a {
			other, ok := object[key]
			if !ok || !equal(value, other) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// TestCanonicalIsBounded has arguments that would take long or recurse deeply in a naive implementation.
func TestCanonicalIsBounded(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
		if _, err := rawjson.AppendCanonical(nil, []byte(deep)); err == nil {
			t.Errorf("deep value: %v, want an error", err)
		}
		digits := strings.Repeat("9", 1<<20)
		if _, err := rawjson.AppendCanonical(nil, []byte("["+digits+","+digits+"."+digits+"]")); err != nil {
			t.Errorf("long numbers: got error %v, want none", err)
		}
		if _, err := rawjson.AppendCanonical(nil, []byte("1e"+digits)); err == nil {
			t.Errorf("long exponent: %v, want an error", err)
		}
		wide := strings.Repeat(`{"b":0,"a":`, 900) + `"` + strings.Repeat("x", 1<<18) + `"` + strings.Repeat("}", 900)
		if _, err := rawjson.AppendCanonical(nil, []byte(wide)); err != nil {
			t.Errorf("deep and large: got error %v, want none", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("AppendCanonical takes longer than a minute")
	}
}
