package budget_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
)

// TestExcerpt checks excerpts of random values against a model on decoded values: what is shown, and how much is left out.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	paths := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a.b", "b.a", "a.a", "c.d", "a.b.c"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		value := plainJSON(4).Draw(t, "value")
		e := budget.Excerpt{Keep: paths.Draw(t, "keep"), Drop: paths.Draw(t, "drop"), Top: rapid.IntRange(0, 3).Draw(t, "top")}
		shown, left, err := e.Of(t.Context(), []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		m := model{Excerpt: e}
		want, found := m.of(decodeText(t, value), "", len(e.Keep) == 0)
		if !found {
			m = model{Excerpt: e}
			want, _ = m.of(decodeText(t, value), "", true)
		}
		got := decodeText(t, string(shown))
		if fmt.Sprint(got) != fmt.Sprint(want) || left != m.left {
			t.Fatalf("%+v of %s\ngot  %s, %+v\nwant %v, %+v", e, value, shown, left, want, m.left)
		}
		if left == (budget.LeftOut{}) && string(shown) != value {
			t.Fatalf("%+v leaves nothing out of %s and shows %s", e, value, shown)
		}
	})
}

// plainJSON draws values of few distinct keys without dots, each once in an object.
func plainJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 4).Draw(t, "kind")
		switch {
		case depth == 0 || kind == 0:
			return rapid.SampledFrom([]string{"null", "1.50", "1e3", `"x\"y"`, "[]", "{}"}).Draw(t, "scalar")
		case kind == 1:
			return "[" + strings.Join(rapid.SliceOfN(plainJSON(depth-1), 0, 5).Draw(t, "items"), ",") + "]"
		}
		var members []string
		for _, key := range []string{"a", "b", "c", "d"} {
			if rapid.Bool().Draw(t, key) {
				members = append(members, `"`+key+`":`+plainJSON(depth-1).Draw(t, "value"))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func decodeText(t *rapid.T, text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// model makes an excerpt of a decoded value.
type model struct {
	budget.Excerpt
	left budget.LeftOut
}

// of returns what is shown of the value at a path, and whether that is anything; all: the value is kept as a whole.
func (m *model) of(v any, at string, all bool) (shown any, found bool) {
	found = all
	switch v := v.(type) {
	case []any:
		list := []any{}
		for i, element := range v {
			if m.Top > 0 && i >= m.Top {
				m.left.Elements++
				continue
			}
			one, some := m.of(element, at, all)
			list, found = append(list, one), found || some
		}
		return list, found
	case map[string]any:
		object := map[string]any{}
		for key, member := range v {
			path := strings.TrimPrefix(at+"."+key, ".")
			before := m.left
			kept := all || names(m.Keep, path)
			switch {
			case names(m.Drop, path):
			case kept || leads(m.Keep, path):
				if one, some := m.of(member, path, kept); some {
					object[key], found = one, true
					continue
				}
			}
			m.left = before
			m.left.Members++
		}
		return object, found
	}
	return v, found
}

func names(paths []string, path string) bool { return slices.Contains(paths, path) }

func leads(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") })
}

// TestExcerptOfDeepValue checks that what is nested too deeply is shown as it is.
func TestExcerptOfDeepValue(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 2000) + "1,2,3" + strings.Repeat("]", 2000)
	for _, e := range []budget.Excerpt{{Top: 1}, {Keep: []string{"a"}}, {Drop: []string{"a"}}} {
		shown, left, err := e.Of(t.Context(), []byte(deep))
		if err != nil || string(shown) != deep || left != (budget.LeftOut{}) {
			t.Errorf("%+v: got %d bytes, %+v, %v; want all %d", e, len(shown), left, err, len(deep))
		}
	}
}

// BenchmarkExcerpt makes excerpts of 10,000 matches in 1,000 files.
func BenchmarkExcerpt(b *testing.B) {
	var files []string
	for i := range 1000 {
		var matches []string
		for j := range 10 {
			matches = append(matches, fmt.Sprintf(`{"line":%d,"text":"\tfunc (o Order) Total%d() int { return o.ID }"}`, j, i))
		}
		files = append(files, fmt.Sprintf(`{"path":"src/shop%d.go","count":10,"matches":[%s]}`, i, strings.Join(matches, ",")))
	}
	value := []byte(`{"count":10000,"fileCount":1000,"files":[` + strings.Join(files, ",") + `]}`)
	for name, e := range map[string]budget.Excerpt{
		"top":  {Top: 20},
		"keep": {Keep: []string{"count", "files.path", "files.matches.line"}},
		"drop": {Drop: []string{"files.matches.text"}, Top: 900},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				if shown, left, err := e.Of(b.Context(), value); err != nil || left == (budget.LeftOut{}) || !json.Valid(shown) {
					b.Fatalf("%d bytes, %+v, %v", len(shown), left, err)
				}
			}
		})
	}
	b.Run("baseline decode", func(b *testing.B) {
		b.SetBytes(int64(len(value)))
		b.ReportAllocs()
		for b.Loop() {
			var decoded map[string]any
			if err := json.Unmarshal(value, &decoded); err != nil || len(decoded) != 3 {
				b.Fatal(len(decoded), err)
			}
		}
	})
}
