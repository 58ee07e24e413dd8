package files_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestFindMany: all pages together contain all files, and the counts by folder add up.
func TestFindMany(t *testing.T) {
	t.Parallel()
	tree, want := map[string]string{}, []string{}
	for i := range 70 {
		for _, sub := range []string{"", "x/", "x/y/"} {
			name := fmt.Sprintf("top/dir%02d/%sfile", i, sub)
			tree[name] = ""
			want = append(want, name)
		}
	}
	tree["top/file"] = ""
	want = append(want, "top/file")
	slices.Sort(want)
	s, _ := open(t, tree)
	for _, limit := range []int{1, 17, 210, 211, 500} {
		var joined []string
		for offset := 0; ; {
			got := do[findResult](t, s, "fs.find", args(t, "pattern", "file", "limit", limit, "offset", offset))
			joined = append(joined, got.Files...)
			sum := 0
			for _, f := range got.Folders {
				sum += f.Count
			}
			if len(got.Files) < got.Count && (sum != got.Count || len(got.Folders) > 50) {
				t.Fatalf("limit %d offset %d: the folders count %d files in %d folders, want %d", limit, offset, sum, len(got.Folders), got.Count)
			}
			if !got.Truncated {
				break
			}
			offset = got.Next
		}
		if !slices.Equal(joined, want) {
			t.Errorf("limit %d: the joined pages have %d files, want %d, in order", limit, len(joined), len(want))
		}
	}
	got := do[findResult](t, s, "fs.find", `{"pattern":"file","path":"top/dir03","limit":1}`)
	if want := []folderCount{{"top/dir03/x", 2}, {"top/dir03", 1}}; !slices.Equal(got.Folders, want) {
		t.Errorf("folders %v, want %v", got.Folders, want)
	}
}

func TestDeepTree(t *testing.T) {
	t.Parallel()
	s, root := open(t, nil)
	writeTree(t, root, map[string]string{strings.Repeat("d/", 200+5) + "file": "needle", "file": "needle"})
	got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle"}`)
	if got.Count != 1 || len(got.Skipped) != 1 || got.Skipped[0].Reason != "too_deep" {
		t.Errorf("got %+v, want one match and one folder skipped as too deep", got)
	}
	below := strings.TrimSuffix(strings.Repeat("d/", 200), "/")
	if got := do[grepResult](t, s, "fs.grep", args(t, "pattern", "needle", "path", below)); got.Count != 1 {
		t.Errorf("a path does not reach the file below the depth bound: %+v", got)
	}
}

// TestAlternatives: a glob may have a thousand alternatives, including those of nested braces.
func TestAlternatives(t *testing.T) {
	t.Parallel()
	s, _ := open(t, map[string]string{strings.Repeat("a", 60): ""})
	rejected := func(pattern string) bool {
		_, err := rawCall(t, s, "fs.find", args(t, "pattern", pattern))
		return fault.CodeOf(err) == fault.BadArguments
	}
	group := func(n int) string { return "{" + strings.Repeat("x,", n-1) + "x}" }
	for pattern, n := range map[string]int{
		"*.go": 1, "{a,b}": 2, "{a,b}{c,d,e}": 6, "{a,{b,c}d,e}": 4, "{{a,b}{c,d},e}": 5, `\{a,b\}`: 1, `{a\,b,c}`: 2, "[{,]x": 1,
		"{[}],b,c}": 3, "a,b": 1, "{a}{b}": 4, strings.Repeat("{x,", 40) + "y" + strings.Repeat("}", 40): 41,
	} {
		// With 10 × k more alternatives the pattern just stays within the bound.
		k := 100 / n
		if rejected(pattern+group(10)+group(k)) || !rejected(pattern+group(10)+group(k+1)) {
			t.Errorf("%s does not count as %d alternatives", pattern, n)
		}
	}
	if rejected(strings.Repeat("{a,b}", 9)) || !rejected(strings.Repeat("{a,b}", 10)) {
		t.Error("512 alternatives are rejected, or 1,024 accepted")
	}
	nested := "{" + strings.Repeat("{a,a}", 40) + "}b" // no name matches, after 2^40 attempts
	for fn, args := range map[string]string{"fs.find": args(t, "pattern", nested), "fs.grep": args(t, "pattern", "x", "glob", nested)} {
		mustFail(t, s, fn, args, fault.BadArguments)
	}
	mustFail(t, s, "fs.find", args(t, "pattern", "*", "excludePatterns", []string{nested}), fault.BadArguments)
	if got := do[findResult](t, s, "fs.find", args(t, "pattern", "{{b,c},{a*,d}}")); got.Count != 1 {
		t.Errorf("got %+v, want 1 file", got)
	}
}
