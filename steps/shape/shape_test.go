package shape

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// learned returns a function that has learned from results, each seen by two callers.
func learned(results ...string) *function {
	f := newFunction("", []byte("salt"))
	for _, result := range results {
		f.observe([]byte(result), "ann")
		f.observe([]byte(result), "bob")
	}
	return f
}

func schemaOf(f *function) string {
	if seen := f.published.Load(); seen != nil {
		return string(seen.Schema)
	}
	return ""
}

// TestShape learns from the results of testdata/shapes.txt: a paragraph has the results of one function, the indented line is its schema.
func TestShape(t *testing.T) {
	t.Parallel()
	const name = "testdata/shapes.txt"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t") })
		if len(lines) > 1 {
			lines = append(lines, "\t"+schemaOf(learned(lines[1:]...)))
		}
		got = append(got, strings.Join(lines, "\n"))
	}
	transcript.File(t, name, []byte(strings.Join(got, "\n\n")+"\n"))
}

// TestManyNames: an object with more than 64 names, at once or over time, is a map.
func TestManyNames(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range maxMembers + 1 {
		fmt.Fprintf(&b, `,"%s":1`, word(i))
	}
	const want = `{"type":"object","additionalProperties":{"type":"integer"}}`
	if got := schemaOf(learned("{" + b.String()[1:] + "}")); got != want {
		t.Errorf("one result: got %s, want %s", got, want)
	}
	f := newFunction("", []byte("salt"))
	for i := range 200 {
		f.observe(fmt.Appendf(nil, `{"%s":1}`, word(i)), "ann")
	}
	if got := schemaOf(f); got != want {
		t.Errorf("many results: got %s, want %s", got, want)
	}
}

// TestNamesCountOnce: a name that is stored later counts once, also after a merge with a file that was saved before.
func TestNamesCountOnce(t *testing.T) {
	t.Parallel()
	const always, sometimes = 30, 18
	common := `{"` + word(0) + `":1`
	for i := 1; i < always; i++ {
		common += `,"` + word(i) + `":1`
	}
	for _, saved := range []bool{false, true} {
		f := learned(common + "}")
		for i := always; i < always+sometimes; i++ {
			result := []byte(common + `,"` + word(i) + `":1}`)
			f.observe(result, "ann")
			earlier := f.section()
			f.observe(result, "bob")
			if saved {
				f.join(earlier)
			}
		}
		if got := len(f.root.members); got != always+sometimes || f.root.pendingNames != 0 {
			t.Errorf("saved %t: got %d names stored and %d pending, want %d and 0", saved, got, f.root.pendingNames, always+sometimes)
		}
	}
}

// word returns a name of letters only.
func word(i int) string {
	return fmt.Sprintf("%c%c%c", 'a'+i/26/26%26, 'a'+i/26%26, 'a'+i%26)
}

// TestStored: a name is stored, with the values below it, once two callers or five calls have seen it.
func TestStored(t *testing.T) {
	t.Parallel()
	const result = `{"items":[{"id":1}]}`
	f := newFunction("", []byte("salt"))
	for n := 1; n <= 5; n++ {
		f.observe([]byte(result), "ann")
		if has := strings.Contains(schemaOf(f), `"id"`); has != (n == 5) {
			t.Errorf("after %d calls of one caller: got shape %q, want id only after 5", n, schemaOf(f))
		}
	}
	f = newFunction("", []byte("salt"))
	f.observe([]byte(result), "")
	f.observe([]byte(`{"other":[]}`), "bob")
	if got := schemaOf(f); got != `{"type":"object"}` {
		t.Errorf("after two callers with different names: got shape %q, want {\"type\":\"object\"}", got)
	}
	f.observe([]byte(result), "bob")
	if !strings.Contains(schemaOf(f), `"id"`) {
		t.Errorf("after two callers with the same name: got shape %q, want id", schemaOf(f))
	}
}

// TestRare: names that were seen too rarely to be stored are not reported as missing.
func TestRare(t *testing.T) {
	t.Parallel()
	f := learned(`{"items":[{"id":1}],"map":{"1111":{"a":1}}}`)
	f.observe([]byte(`{"items":[{"id":1,"note":"x"}],"map":{"2222":{"b":1}},"more":true}`), "ann")
	path := func(elements ...schema.Element) bool { return f.published.Load().Rare(elements) }
	each, key := schema.Element{Each: true}, func(name string) schema.Element { return schema.Element{Key: name} }
	for name, test := range map[string][2]bool{
		"more":      {path(key("more")), true},
		"note":      {path(key("items"), each, key("note")), true},
		"a digit":   {path(key("items"), key("0"), key("note")), true},
		"index":     {path(key("items"), schema.Element{Key: "-1", Index: true}, key("note")), true},
		"b of map":  {path(key("map"), key("3333"), key("b")), true},
		"never":     {path(key("items"), each, key("nota")), false},
		"elsewhere": {path(key("note")), false},
		"an index":  {path(schema.Element{Key: "0", Index: true}), false},
	} {
		if test[0] != test[1] {
			t.Errorf("%s: rare is %v, want %v", name, test[0], test[1])
		}
	}
}

// TestMaxSchema: a shape stays within its bound and keeps the outer names. If an object lost names, its schema still allows other names.
func TestMaxSchema(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `,"outer_%s":{"inner_%s":{"innermost_%s":"x"}}`, word(i), word(i), word(i))
	}
	f := learned("{" + b.String()[1:] + "}")
	got := string(f.root.appendSchema(nil, true))
	if len(got) > maxSchema || len(got) < maxSchema/2 {
		t.Errorf("the schema has %d bytes, want %d to %d", len(got), maxSchema/2, maxSchema)
	}
	if strings.Count(got, `"outer_`) != 40 || strings.Contains(got, "innermost_") && !strings.Contains(got, "inner_"+word(39)) {
		t.Errorf("the schema lacks outer names, or keeps inner before outer ones: %s", got)
	}
	before := got
	f.observe([]byte("{"+b.String()[1:]+"}"), "eve")
	if got := string(f.root.appendSchema(nil, true)); got != before {
		t.Errorf("a full shape changed to %s, want it as before", got)
	}
}

// TestBounds: only a part of a large or deep result is read, and the rest does not count as missing.
func TestBounds(t *testing.T) {
	t.Parallel()
	large := `{"list":[` + strings.Repeat(`"0123456789",`, maxBytes/10) + `0],"total":1}`
	if got := schemaOf(learned(large)); strings.Contains(got, "total") || strings.Contains(got, "false") {
		t.Errorf("large result: got %s, want neither total nor false", got)
	}
	wide := `{"list":[` + strings.Repeat(`{"a":1},`, maxValues) + `{"a":1}],"total":1}`
	if got := schemaOf(learned(wide)); !strings.Contains(got, `"a"`) || !strings.HasSuffix(got, `"required":["list"]}`) {
		t.Errorf("wide result: got %s, want a, and only list required", got)
	}
	deep := strings.Repeat(`{"a":[`, 500) + `1` + strings.Repeat(`]}`, 500)
	if got := schemaOf(learned(deep)); strings.Count(got, `"a":`) > maxDepth || !strings.Contains(got, `{"type":"object"}`) {
		t.Errorf("deep result: got %s, want at most %d levels of a", got, maxDepth)
	}
}

// TestLinear: the time to read a text of escapes is linear in its length.
func TestLinear(t *testing.T) { // not parallel: it measures
	fastest := func(size int) time.Duration {
		result, minimum := []byte(escapedText(size)), time.Hour
		for range 5 {
			started := time.Now()
			infer(result)
			minimum = min(minimum, time.Since(started))
		}
		return minimum
	}
	const times = 64
	small, large := fastest(maxBytes/times), fastest(maxBytes)
	if large > times*times/2*small { // quadratic time would be times*times; the rest allows for a busy machine
		t.Errorf("a text %d times as long takes %d times the time, want at most %d", times, large/small, times*times/2)
	}
}

// escapedText returns a result of this size with a text of nothing but line breaks.
func escapedText(size int) string { return `{"text":"` + strings.Repeat(`\n`, size/2-6) + `"}` }

func TestIsData(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"id", "file_path", "isRequired", "@type", "$ref", "#text", "line2", "sha256", "x86_64", "ipv4", "utf-8",
		"名前", "größe", "_links", "p95", "oauth2Token"} {
		if isData(name) {
			t.Errorf("isData(%q) = true, want false", name)
		}
	}
	for _, name := range []string{"", "0", "17", "1151293680", "2024-05-01", "12:30", "2024-05-01T12:30:00Z", "a@example.org",
		"src/main.go", "main.go", `C:\x`, "https://x.org",
		"550e8400-e29b-41d4-a716-446655440000", "d41d8cd98f00b204e9800998ecf8427e", "deadbee1", "user_17304", "credit_card_9513926",
		"U024BE7LH", "dQw4w9WgXcQ", "HAT001",
		"John Smith", "10.0.0.1", "fe80::1", "a\x00b", "a\"b", "+49301234", strings.Repeat("long", 20)} {
		if !isData(name) {
			t.Errorf("isData(%q) = false, want true", name)
		}
	}
}

// TestShouldRead: after the first results, only a few are read.
func TestShouldRead(t *testing.T) {
	t.Parallel()
	f := newFunction("", []byte("salt"))
	read := 0
	for range 10_000 {
		if f.shouldRead() {
			read++
			f.observe([]byte(`{"a":1}`), "")
		}
	}
	if read > firstReads+10_000/readInterval || read < firstReads {
		t.Errorf("%d of 10,000 results were read, want %d to %d", read, firstReads, firstReads+10_000/readInterval)
	}
}
