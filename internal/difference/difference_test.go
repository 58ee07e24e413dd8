package difference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/difference"
)

// TestPatches: a JSON Patch, applied by another implementation, makes the new value of the earlier one, with every number as it is spelled.
func TestPatches(t *testing.T) {
	t.Parallel()
	patches := 0
	rapid.Check(t, func(t *rapid.T) {
		earlier := value(4).Draw(t, "earlier")
		now := edited(t, earlier, 4)
		ways, same := difference.Between(compact(earlier), compact(now))
		if same != reflect.DeepEqual(earlier, now) {
			t.Fatalf("same: %t of %s and %s", same, compact(earlier), compact(now))
		}
		for _, way := range ways {
			if way[0] != '[' {
				continue
			}
			patches++
			if got := patched(t, compact(earlier), way); !reflect.DeepEqual(got, now) {
				t.Fatalf("%s\nmakes of %s\ngot  %s\nwant %s", way, compact(earlier), compact(got), compact(now))
			}
		}
	})
	if patches == 0 {
		t.Error("no patch was made")
	}
}

// TestTexts: a unified diff, applied by another implementation, makes the new text of the earlier one.
func TestTexts(t *testing.T) {
	t.Parallel()
	diffs := 0
	line := rapid.SampledFrom([]string{"", "}", "-- a", "++ b", "@@ -1,2 +3,4 @@", `\ No newline at end of file`, " x", "é\t\"", "same", "\r"})
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 0, 60).Draw(t, "lines")
		changed := slices.Clone(lines)
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			at := rapid.IntRange(0, len(changed)).Draw(t, "at")
			end := min(at+rapid.IntRange(0, 2).Draw(t, "removed"), len(changed))
			changed = slices.Replace(changed, at, end, rapid.SliceOfN(line, 0, 2).Draw(t, "added")...)
		}
		earlier, now := strings.Join(lines, "\n"), strings.Join(changed, "\n")
		ways, same := difference.Between(compact(earlier), compact(now))
		if same != (earlier == now) {
			t.Fatalf("same: %t of %q and %q", same, earlier, now)
		}
		for _, way := range ways {
			diffs++
			if got := applied(t, earlier, text(t, way)); got != now {
				t.Fatalf("%s\nmakes of %q\ngot  %q\nwant %q", way, earlier, got, now)
			}
		}
	})
	if diffs == 0 {
		t.Error("no diff was made")
	}
}

// TestTextsOfMembers: of an object in which a text of several lines has changed, each part of the unified diff makes the member that it
// names.
func TestTextsOfMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := make([]string, 100)
		for i := range lines {
			lines[i] = fmt.Sprintf("line %d of many", i)
		}
		earlier := fmt.Sprintf(`{"path":"a/b","size":%d,"a/b":{"~":[null,%s]},"type":true}`, 2000, quoted(lines))
		lines[rapid.IntRange(0, 99).Draw(t, "line")] = "changed"
		size := rapid.SampledFrom([]string{"2000", "2.0e3", "1990"}).Draw(t, "size")
		now := fmt.Sprintf(`{"path":"a/b","size":%s,"a/b":{"~":[null,%s]},"type":true}`, size, quoted(lines))
		ways, same := difference.Between([]byte(earlier), []byte(now))
		diff := ""
		for _, way := range ways {
			if way[0] == '"' {
				diff = text(t, way)
			}
		}
		if same || len(diff) > len(now)/4 {
			t.Fatalf("same %t, and the diff is %s", same, diff)
		}
		files, _, err := gitdiff.Parse(strings.NewReader(diff))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			at, _ := hujson.Parse([]byte(earlier))
			member := at.Find("/" + strings.TrimPrefix(f.OldName, "/"))
			before, isText := strings.TrimSpace(member.String()), strings.HasPrefix(member.String(), `"`)
			if isText {
				before = text(t, []byte(before))
			} else {
				before += "\n"
			}
			var out bytes.Buffer
			if err := gitdiff.Apply(&out, strings.NewReader(before), f); err != nil {
				t.Fatal(err)
			}
			after := strings.TrimSuffix(out.String(), "\n")
			if isText {
				after = string(compact(out.String()))
			}
			earlier = string(compact(patched(t, []byte(earlier), fmt.Appendf(nil, `[{"op":"replace","path":%q,"value":%s}]`,
				"/"+strings.TrimPrefix(f.OldName, "/"), after))))
		}
		if got, want := decoded(t, []byte(earlier)), decoded(t, []byte(now)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\ngot  %v\nwant %v", diff, got, want)
		}
	})
}

// TestBetween has pairs, and what is said of them.
func TestBetween(t *testing.T) {
	t.Parallel()
	many := `{"id":1,"name":"a long name that is there"},{"id":2,"name":"a long name that is there"},{"id":3,"name":"a long name that is there"}`
	long := strings.Repeat("x", difference.MaxBytes)
	deep := func(inner string) string { return strings.Repeat("[", 200) + inner + strings.Repeat("]", 200) }
	for _, test := range []struct{ earlier, now, want string }{
		{`[1,2]`, `[1,2]`, "same"},
		{`{"a":1,"b":[{"c":"\u00e9","d":2}]}`, `{"b":[{"d":2,"c":"é"}],"a":1}`, "same"},
		{`1`, `2`, ""},
		{`"a"`, `"b"`, ""},
		{`[` + many + `]`, `{"list":[` + many + `]}`, ""},
		{`{"n":[` + many + `],"big":12345678901234567890}`, `{"n":[` + many + `],"big":12345678901234567891}`,
			`[{"op":"replace","path":"/big","value":12345678901234567891}]`},
		{`{"n":[` + many + `],"x":1.10}`, `{"n":[` + many + `],"x":1.1}`, `[{"op":"replace","path":"/x","value":1.1}]`},
		{`[` + many + `]`, `[{"id":0},` + many + `]`, `[{"op":"add","path":"/0","value":{"id":0}}]`},
		{`[9,8,` + many + `]`, `[` + many + `]`, `[{"op":"remove","path":"/0"},{"op":"remove","path":"/0"}]`},
		{`[` + many + `]`, `[` + many + `,null]`, `[{"op":"add","path":"/3","value":null}]`},
		{`{"a/b~c":1,"k":[` + many + `]}`, `{"k":[` + many + `],"\n":2}`,
			`[{"op":"remove","path":"/a~1b~0c"},{"op":"add","path":"/\n","value":2}]`},
		{`{"a":1,"a":2,"k":[` + many + `]}`, `{"a":3,"k":[` + many + `]}`, ""},                                                        // a name twice
		{`{"\ud800":1,"k":[` + many + `]}`, `{"\ud801":1,"k":[` + many + `]}`, ""},                                                    // names without UTF-8
		{`{"a":"\ud800","k":[` + many + `]}`, `{"a":"\ud801","k":[` + many + `]}`, `[{"op":"replace","path":"/a","value":"\ud801"}]`}, // values
		{`"` + long + `"`, `"` + long + `y"`, ""},
		{deep("1"), deep("2"), ""},
	} {
		ways, same := difference.Between([]byte(test.earlier), []byte(test.now))
		got := string(bytes.Join(ways, []byte(" ")))
		if same {
			got = "same"
		}
		if got != test.want {
			t.Errorf("%.200s\n%.200s\ngot  %s\nwant %s", test.earlier, test.now, got, test.want)
		}
	}
}

// FuzzBetween: no two values make it panic, and a patch makes the new one of the earlier one.
func FuzzBetween(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, `{"a":[{"b":3}],"c":null}`)
	f.Add(`["a\nb",1]`, `["a\nc",2]`)
	f.Add(`{"a":1,"a":[2]}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		earlier, now := compacted(a), compacted(b)
		if earlier == nil || now == nil {
			return
		}
		ways, _ := difference.Between(earlier, now)
		for _, way := range ways {
			if !json.Valid(way) {
				t.Fatalf("%s is not JSON", way)
			}
			if way[0] == '[' {
				if got, want := patched(t, earlier, way), decoded(t, now); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s\nmakes of %s\ngot  %v\nwant %v", way, earlier, got, want)
				}
			}
		}
	})
}

// compacted returns a text without blanks; nil: it is not JSON in UTF-8, or is nested deeper than what applies patches takes.
func compacted(text string) []byte {
	var out bytes.Buffer
	if !utf8.ValidString(text) || strings.Count(text, "[")+strings.Count(text, "{") > 100 || json.Compact(&out, []byte(text)) != nil {
		return nil
	}
	return out.Bytes()
}

// value returns random values of the types that decoded returns.
func value(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SampledFrom([]string{"0", "1", "1.0", "1e0", "-0", "12345678901234567890", "1.10"}),
			func(n string) any { return json.Number(n) }),
		rapid.Map(rapid.StringOfN(rapid.RuneFrom([]rune("ab\n\"~/é")), 0, 12, -1), func(s string) any { return s }),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) })
	return rapid.OneOf(append(scalars,
		rapid.Map(rapid.SliceOfN(inner, 0, 8), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab~/\n ")), 0, 3, -1), inner, 0, 5),
			func(m map[string]any) any { return m }))...)
}

// edited returns a value with a few edits.
func edited(t *rapid.T, v any, depth int) any {
	switch v := v.(type) {
	case []any:
		out := slices.Clone(v)
		for range rapid.IntRange(0, 2).Draw(t, "edits") {
			at := rapid.IntRange(0, len(out)).Draw(t, "at")
			switch {
			case rapid.Bool().Draw(t, "insert") || at == len(out):
				out = slices.Insert(out, at, value(1).Draw(t, "inserted"))
			case rapid.Bool().Draw(t, "delete"):
				out = slices.Delete(out, at, at+1)
			default:
				out[at] = edited(t, out[at], depth-1)
			}
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for _, key := range slices.Sorted(keysOf(v)) {
			switch rapid.IntRange(0, 7).Draw(t, "edit") {
			case 0:
			case 1:
				out[key] = edited(t, v[key], depth-1)
			default:
				out[key] = v[key]
			}
		}
		if rapid.Bool().Draw(t, "more") {
			out[rapid.SampledFrom([]string{"new", "a", ""}).Draw(t, "key")] = value(1).Draw(t, "added")
		}
		return out
	}
	return value(depth).Draw(t, "replaced")
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// patched applies a JSON Patch.
func patched(t rapid.TB, value, patch []byte) any {
	v, err := hujson.Parse(value)
	if err == nil {
		err = v.Patch(patch)
	}
	if err != nil {
		t.Fatalf("%s on %s: %v", patch, value, err)
	}
	return decoded(t, v.Pack())
}

// applied applies a unified diff.
func applied(t *rapid.T, earlier, diff string) string {
	files, _, err := gitdiff.Parse(strings.NewReader(diff))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q has %d parts: %v", diff, len(files), err)
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, strings.NewReader(earlier), files[0]); err != nil {
		t.Fatalf("%q on %q: %v", diff, earlier, err)
	}
	return out.String()
}

func decoded(t rapid.TB, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func text(t rapid.TB, quoted []byte) string { return decoded(t, quoted).(string) }

func compact(v any) []byte {
	text, _ := json.Marshal(v) // of what JSON has
	return text
}

func quoted(lines []string) []byte { return compact(strings.Join(lines, "\n")) }
