package rawjson_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

var samples = []string{
	`{}`, `[]`, `""`, `0`, `null`, ` { "a" : [ 1 , "x,]}" , { "b\"]" : -1.5e+3 } ] , "" : "\\" , "é\u00e9\ud83d\ude00" : true } `,
	`{"a":1,"a":{"b":[[],[{}]]}}`, `"\\\\\""`, `[1,22,"\"",false]`, `12345678901234567890`, `"\ud800x\udc00\ud800\ud800"`,
}

// With any text, nothing panics or reads beyond it. In JSON, the parts are those that encoding/json and gjson find.
func FuzzScan(f *testing.F) {
	for _, sample := range samples {
		f.Add(sample)
	}
	for _, broken := range []string{`{"a`, `{"a"`, `{"a":`, `{"a":1`, `[1,`, `"\`, `{"a" 1}`, `[,]`, `}`, `,`, `{1:2}`, `["`, "\xff",
		`"\u12`, `:`} {
		f.Add(broken)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := []byte(text)
		checkOutline(t, text)
		for start, end := range rawjson.Scalars(b) {
			if start >= end || end > len(b) {
				t.Fatalf("%q has a scalar from %d to %d", text, start, end)
			}
		}
		for range rawjson.Elements(b) {
		}
		for range rawjson.Members(b) {
		}
		_, _ = rawjson.Inside(b), rawjson.Unquote(text)
		if !gjson.ValidBytes(b) {
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil {
			t.Fatal(err)
		}
		if got := rawjson.AppendCompact(nil, b); !bytes.Equal(got, compact.Bytes()) {
			t.Fatalf("AppendCompact of %q = %q, want %q", text, got, compact.Bytes())
		}
		if blanks, _ := rawjson.Outline(b, 10_000); blanks != len(b)-compact.Len() {
			t.Fatalf("Outline of %q returns %d blanks, want %d", text, blanks, len(b)-compact.Len())
		}
		checkPieces(t, b)
	})
}

func checkOutline(t *testing.T, text string) {
	t.Helper()
	_, deep := rawjson.Outline(text, 2)
	depth, want, quoted := 0, -1, false
	for i := 0; i < len(text) && want < 0; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > 2 {
				want = i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if deep != want {
		t.Fatalf("Outline of %q returns depth position %d, want %d", text, deep, want)
	}
}

// checkPieces compares the members and elements of a value, at any depth, with those of gjson.
func checkPieces(t *testing.T, value []byte) {
	t.Helper()
	start := rawjson.SkipBlanks(value, 0)
	if end := rawjson.ValueEnd(value, start); rawjson.SkipBlanks(value, end) != len(value) {
		t.Fatalf("ValueEnd of %q = %d, want its end", value, end)
	}
	var got, want []string
	parsed := gjson.ParseBytes(value)
	switch {
	case parsed.IsObject():
		for key, member := range rawjson.Members(value) {
			got = append(got, string(key), string(member))
		}
	case parsed.IsArray():
		for start, end := range rawjson.Elements(value) {
			got = append(got, "", string(value[start:end]))
		}
		if again := slices.Collect(starts(rawjson.Inside(value))); len(again)*2 != len(got) {
			t.Fatalf("Inside of %q yields %d values, want %d", value, len(again), len(got)/2)
		}
	default:
		checkText(t, parsed)
		return
	}
	parsed.ForEach(func(key, member gjson.Result) bool {
		want = append(want, key.Raw, strings.TrimRight(member.Raw, " \t\r\n"))
		return true
	})
	if parsed.IsArray() {
		for i := range want {
			if i%2 == 0 {
				want[i] = ""
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("pieces of %q are %q, want %q", value, got, want)
	}
	for i := 1; i < len(got); i += 2 {
		checkPieces(t, []byte(got[i]))
	}
}

func starts(list []byte) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for start := range rawjson.Values(list) {
			if !yield(start) {
				return
			}
		}
	}
}

func checkText(t *testing.T, value gjson.Result) {
	t.Helper()
	raw := strings.TrimSpace(value.Raw)
	if value.Type != gjson.String || !utf8.ValidString(raw) {
		return
	}
	var want string
	if err := json.Unmarshal([]byte(raw), &want); err != nil {
		t.Fatal(err)
	}
	if got := rawjson.Unquote(raw); got != want {
		t.Fatalf("Unquote(%s) = %q, want %q", raw, got, want)
	}
}

// A text that is quoted and unquoted is unchanged.
func TestQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		quoted := rawjson.AppendQuote(nil, text)
		if !gjson.ValidBytes(quoted) || rawjson.StringEnd(quoted, 0) != len(quoted) ||
			rawjson.Unquote(string(quoted)) != strings.ToValidUTF8(text, "\ufffd") {
			t.Fatalf("AppendQuote of %q = %s, want a JSON string of it", text, quoted)
		}
	})
	if got := string(rawjson.AppendQuote([]byte("x"), "<\n\xff>")); got != "x\"<\\n\ufffd>\"" {
		t.Errorf("AppendQuote = %q, want %q", got, "x\"<\\n\ufffd>\"")
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	const text = "{\"a\":\"\\\"é\u00a0日👍\u0301\"}"
	if got := string(rawjson.Visible([]byte(text))); got != text {
		t.Errorf("Visible(%q) = %q, want no change", text, got)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		got := rawjson.Visible(rawjson.AppendQuote(nil, want))
		if back := rawjson.Unquote(string(got)); back != rawjson.Unquote(string(rawjson.AppendQuote(nil, want))) {
			t.Fatalf("Visible of %q = %s, which unquotes to %q", want, got, back)
		}
		if i := bytes.IndexFunc(got, func(c rune) bool { return !unicode.IsGraphic(c) }); i >= 0 {
			t.Fatalf("Visible of %q has invisible characters: %q", want, got)
		}
	})
}

func TestScalars(t *testing.T) {
	t.Parallel()
	value := []byte(` {"a" : [1,-2.5e+1, "x\"y"], "b":null} `)
	var got []string
	for start, end := range rawjson.Scalars(value) {
		got = append(got, string(value[start:end]))
	}
	if want := []string{`"a"`, `1`, `-2.5e+1`, `"x\"y"`, `"b"`, `null`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Functions that are called for every byte of a call's arguments and result do not allocate.
func TestAllocations(t *testing.T) {
	value := []byte(samples[5])
	text := string(value)
	if n := testing.AllocsPerRun(100, func() {
		for range rawjson.Scalars(value) {
		}
		for range rawjson.Members(value) {
		}
		_, _ = rawjson.Outline(value, 10)
		_, _ = rawjson.ValueEnd(text, 1), rawjson.ValueEnd(value, 1)
		_ = rawjson.Unquote(`"plain"`)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
