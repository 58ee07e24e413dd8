package files_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps/source/files"
)

// TestGrepRanks checks the order of files: definitions first, tests last, then more matches, then the path.
func TestGrepRanks(t *testing.T) {
	t.Parallel()
	s, _ := open(t, map[string]string{
		"z/def.go": "func (s *Server) Render(x int) {\n", "z/type.ts": "export class Render {}\n",
		"a/many.go": "Render Render\nRender\nRender\n", "a/one.go": "Render()\n",
		"a/def_test.go": "func Render() {}\n", "a/one_test.go": "Render()\nRender()\nRender()\nRender()\n", "tests/x.py": "Render()\n",
		"a/readme.md": "the class Render is\n",
		"a/longer.go": "func RenderAll() {}\n", "a/comment.go": "// func Render does\n",
	})
	paths := func(args string) string {
		var names []string
		for _, f := range do[grepResult](t, s, "fs.grep", args).Files {
			names = append(names, f.Path)
		}
		return strings.Join(names, " ")
	}
	rest := " a/many.go a/comment.go a/longer.go a/one.go a/readme.md a/one_test.go tests/x.py"
	if got, want := paths(`{"pattern":"Render"}`), "z/def.go z/type.ts a/def_test.go"+rest; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := paths(`{"pattern":"func Render"}`), "a/def_test.go a/comment.go a/longer.go"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestGrepRanksByLine checks which lines are definitions, and which files are tests.
func TestGrepRanksByLine(t *testing.T) {
	t.Parallel()
	// first checks that the files in first precede all others, although their names sort later.
	first := func(tree map[string]string, first map[string]bool) {
		t.Helper()
		s, _ := open(t, tree)
		for i, f := range do[grepResult](t, s, "fs.grep", `{"pattern":"Name"}`).Files {
			if first[f.Path] != (i < len(first)) {
				t.Errorf("%s (%s) has position %d of %d, want it among the first %d: %t", f.Path, tree[f.Path], i, len(tree), len(first), first[f.Path])
			}
		}
	}
	tree, definitions := map[string]string{}, map[string]bool{}
	for i, text := range []string{"func Name(", "func (s *T) Name(", "type Name struct", "class Name:", "def Name(", "async def Name(",
		"#define Name 1", "pub fn Name(", "export const Name =", "interface Name", "    var Name int", "struct *Name", "x.class Name"} {
		path := fmt.Sprintf("z%02d", i)
		tree[path], definitions[path] = text, true
	}
	for i, text := range []string{"func Named(", "x := Name", "return Name", "// type Name", "type: Name", "typeName", "func (f func(Name)) x",
		"func (s *T) x() { Name"} {
		tree[fmt.Sprintf("a%02d", i)] = text
	}
	first(tree, definitions)
	tree, plain := map[string]string{}, map[string]bool{}
	for _, path := range []string{"latest.go", "contest/a.go", "attest.go", "test.go", "zz.go"} {
		tree[path], plain[path] = "Name", true
	}
	for _, path := range []string{"a_test.go", "test_a.py", "a.test.ts", "a.spec.js", "test/a.go", "x/__tests__/a.js", "FooTest.java",
		"x_spec.rb", "testdata/a"} {
		tree[path] = "Name"
	}
	first(tree, plain)
}

// TestGrepOnlyTests: if all matches are in tests, they are shown like others, and each can be reached.
func TestGrepOnlyTests(t *testing.T) {
	t.Parallel()
	tree := map[string]string{}
	for i := range 40 {
		tree[fmt.Sprintf("pkg/x%02d_test.go", i)] = strings.Repeat("needle\n", 32)
	}
	s, _ := open(t, tree)
	got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle"}`)
	shown := 0
	for _, f := range got.Files {
		shown += len(f.Matches)
	}
	if got.Count != 1280 || got.FileCount != 40 || shown != 1000 || !got.Truncated || got.Next != 1000 {
		t.Fatalf("got count %d in %d files, %d shown, next %d; want 1280 in 40, 1000 shown, next 1000", got.Count, got.FileCount, shown, got.Next)
	}
	got = do[grepResult](t, s, "fs.grep", `{"pattern":"needle","offset":1000}`)
	for _, f := range got.Files {
		shown += len(f.Matches)
	}
	if shown != 1280 || got.Truncated {
		t.Errorf("both pages show %d lines, want all 1280", shown)
	}
}

// TestGrepPages: for any limit and bound in bytes, the joined pages are the whole result in order.
func TestGrepPages(t *testing.T) {
	t.Parallel()
	tree := map[string]string{}
	for i := range 12 {
		tree[fmt.Sprintf("d%d/f%d.txt", i%3, i)] = strings.Repeat("x\nneedle "+strings.Repeat("y", i*20)+"\n", i)
	}
	s, root := open(t, tree)
	type location struct {
		path string
		line int
	}
	pages := func(t tester, s *files.Source, limit int) (all []location, count int) {
		for offset := 0; ; {
			raw, err := rawCall(t, s, "fs.grep", args(t, "pattern", "needle", "limit", limit, "offset", offset, "context", 1))
			must(t, err)
			var got grepResult
			must(t, json.Unmarshal(raw, &got))
			n := 0
			for _, f := range got.Files {
				for _, m := range f.Matches {
					all = append(all, location{f.Path, m.Line})
					n++
				}
			}
			if n > limit || got.Truncated != (offset+n < got.Count) || got.Truncated && (n == 0 || got.Next != offset+n) {
				t.Fatalf("limit %d offset %d: want at most limit matches, and truncated with the next offset if more follow: %s", limit, offset, raw)
			}
			if !got.Truncated {
				return all, got.Count
			}
			offset = got.Next
		}
	}
	want, count := pages(t, s, 100_000)
	if count != 66 || len(want) != 66 {
		t.Fatalf("got %d matches with count %d, want 66", len(want), count)
	}
	rapid.Check(t, func(t *rapid.T) {
		bounded, err := files.New(&files.Options{Root: root, MaxResultBytes: int64(rapid.IntRange(1024, 4*1024).Draw(t, "bytes"))})
		must(t, err)
		defer bounded.Close()
		got, _ := pages(t, bounded, rapid.IntRange(1, 70).Draw(t, "limit"))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("pages joined\n%v, want\n%v", got, want)
		}
	})
}

func TestGrepLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000) + "needle" + strings.Repeat("y", 500_000)
	s, root := open(t, map[string]string{"long": "short needle\n" + long + "\nlast needle\n"})
	got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle","context":1}`)
	matches := got.Files[0].Matches
	if got.Count != 3 || !matches[1].Cut || len([]rune(matches[1].Text)) != 400+2 || !strings.Contains(matches[1].Text, "needle") ||
		matches[2].Line != 3 || len(matches[0].After[0]) > 500 {
		t.Errorf("got %+v, want 3 matches, the second clipped around needle", got)
	}
	// A sparse file of a terabyte is quickly recognized as binary.
	f, err := os.Create(filepath.Join(root, "sparse"))
	must(t, err)
	must(t, f.Truncate(1<<40))
	must(t, f.Close())
	if got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle"}`); got.Count != 3 || got.Skipped[0].Example != "sparse" {
		t.Errorf("got skipped %+v, want the sparse file", got.Skipped)
	}
}

// TestGrepContextBeyondBuffer: context that does not fit in MaxFileBytes with the next line is cut, and no match is lost.
func TestGrepContextBeyondBuffer(t *testing.T) {
	t.Parallel()
	short, long := "needle"+strings.Repeat("x", 93)+"\n", "needle"+strings.Repeat("y", 493)+"\n"
	_, root := open(t, map[string]string{"f": strings.Repeat(short, 10) + long})
	s := openAt(t, &files.Options{Root: root, MaxFileBytes: 1024})
	got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle","context":10}`)
	if matches := got.Files[0].Matches; got.Count != 11 || len(matches) != 11 || matches[10].Line != 11 || len(matches[10].Before) == 0 {
		t.Errorf("got %d of %d matches, want 11, the last at line 11 with the context that fits: %+v", len(matches), got.Count, matches)
	}
}

// TestGrepSystemFiles reads files whose size is reported as 0.
func TestGrepSystemFiles(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("/proc does not exist")
	}
	s := openAt(t, &files.Options{Root: "/proc/self"})
	if got := do[grepResult](t, s, "fs.grep", `{"pattern":"^Name:","path":"status"}`); got.Count != 1 {
		t.Errorf("got %+v, want one match", got)
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"status","head":1}`); !strings.HasPrefix(*got.Text, "Name:") {
		t.Errorf("got %s, want the first line", got.asJSON())
	}
}

// TestGrepPageCountsContextLines has short lines with many context lines: their number bounds the page, not only their text.
func TestGrepPageCountsContextLines(t *testing.T) {
	t.Parallel()
	const lines, maximum = 20_000, 1 << 20
	const matchBytes, lineBytes = 64, 24 // the size of a match and of a line besides their text
	_, root := open(t, map[string]string{"f": strings.Repeat("x\n", lines)})
	s := openAt(t, &files.Options{Root: root, MaxResultBytes: maximum})
	shown := 0
	for offset := 0; ; {
		got := do[grepResult](t, s, "fs.grep", args(t, "pattern", "x", "context", 100, "limit", 100_000, "offset", offset))
		weight := 0
		for _, m := range got.Files[0].Matches {
			if shown++; m.Line != shown {
				t.Fatalf("got line %d, want %d", m.Line, shown)
			}
			weight += matchBytes + (1+len(m.Before)+len(m.After))*(lineBytes+1)
		}
		if one := matchBytes + 201*(lineBytes+1); weight > maximum+one {
			t.Fatalf("a page has %d bytes, want at most %d", weight, maximum+one)
		}
		if offset = got.Next; !got.Truncated {
			break
		}
		if offset > 5*maximum/(100*lineBytes) {
			break // far enough: the pages continue without a gap
		}
	}
	if shown < 400 {
		t.Errorf("got %d lines, want at least 400", shown)
	}
}
