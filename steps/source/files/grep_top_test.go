package files_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGrepTop: over random trees, the joined pages show the best matches of each file, definitions first and then by line; all files are
// there, those of tests too, in the order of a search without top.
func TestGrepTop(t *testing.T) {
	t.Parallel()
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		tree := map[string]string{}
		for i := range rapid.IntRange(1, 6).Draw(t, "files") {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"Name", "func Name() {", "other"}), 0, 8).Draw(t, "lines")
			name := rapid.SampledFrom([]string{"d/f%d.go", "d/f%d_test.go", "d/e/f%d.md", "f%d.go"}).Draw(t, "name")
			tree[fmt.Sprintf(name, i)] = strings.Join(lines, "\n")
		}
		s, _ := open(outer, tree)
		top := rapid.IntRange(1, 4).Draw(t, "top")
		want := map[string][]int{}
		for name, text := range tree {
			definitions, others := []int{}, []int{}
			for i, line := range strings.Split(text, "\n") {
				switch {
				case strings.HasPrefix(line, "func") && path.Ext(name) == ".go":
					definitions = append(definitions, i+1)
				case strings.Contains(line, "Name"):
					others = append(others, i+1)
				}
			}
			if best := slices.Concat(definitions, others); len(best) > top {
				want[name] = best[:top]
			} else if len(best) > 0 {
				slices.Sort(best)
				want[name] = best
			}
		}
		got, order := map[string][]int{}, []string{}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		for offset, more := 0, true; more; {
			page := do[grepResult](t, s, "fs.grep", args(t, "pattern", "Name", "top", top, "limit", limit, "offset", offset))
			for _, f := range page.Files {
				order = append(order, f.Path)
				for _, m := range f.Matches {
					got[f.Path] = append(got[f.Path], m.Line)
				}
			}
			if more = page.Truncated; more && page.Next <= offset {
				t.Fatalf("offset %d: the next is %d", offset, page.Next)
			}
			offset = page.Next
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		var all []string
		for _, f := range do[grepResult](t, s, "fs.grep", `{"pattern":"Name"}`).Files {
			all = append(all, f.Path)
		}
		if order = slices.Compact(order); !slices.Equal(order, all) {
			t.Fatalf("got the files %v, without top %v", order, all)
		}
	})
}

// TestGrepHot compares the hot folder with every folder's count, over random trees.
func TestGrepHot(t *testing.T) {
	t.Parallel()
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		tree := map[string]string{}
		for range rapid.IntRange(1, 8).Draw(t, "files") {
			segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 3).Draw(t, "folder")
			tree[path.Join(append(segments, fmt.Sprintf("f%d", len(tree)))...)] = strings.Repeat("x\n", rapid.IntRange(0, 3).Draw(t, "matches"))
		}
		counts, all, matching := map[string]int{}, 0, 0
		for name, text := range tree {
			n := strings.Count(text, "x")
			all += n
			if n > 0 {
				matching++
			}
			for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
				counts[folder] += n
			}
		}
		var want *folderCount
		for folder, n := range counts {
			if 2*n < all || matching < 2 {
				continue
			}
			depth := strings.Count(folder, "/")
			if want == nil || depth > strings.Count(want.Path, "/") || depth == strings.Count(want.Path, "/") && folder < want.Path {
				want = &folderCount{folder, n}
			}
		}
		s, _ := open(outer, tree)
		got := do[grepResult](t, s, "fs.grep", `{"pattern":"x","limit":1}`).Hot
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Fatalf("got %v, want %v, the counts are %v", got, want, counts)
		}
	})
}
