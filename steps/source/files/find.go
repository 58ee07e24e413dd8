package files

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

type findArgs struct {
	Pattern         string
	Path            string
	Type            string
	ExcludePatterns []string
	Hidden, Ignored bool
	Limit, Offset   integer
}

type findResult struct {
	Count   int           `json:"count"`
	Files   []string      `json:"files"`
	Folders []folderCount `json:"folders,omitempty"` // if the page does not show all files
	page
	Skipped []skip `json:"skipped,omitempty"`
}

type folderCount struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

func (s *Source) find(ctx context.Context, a findArgs) (*findResult, error) {
	if err := checkPage(a.Limit, a.Offset); err != nil {
		return nil, err
	}
	pattern, err := argumentRule("pattern", a.Pattern)
	if err != nil {
		return nil, err
	}
	filter, err := newFilter(a.ExcludePatterns, a.Hidden, a.Ignored)
	if err != nil {
		return nil, err
	}
	rel, info, err := s.locate(a.Path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, atPath(fault.New(fault.FunctionFailed, "%q is not a folder: fs.find looks into folders", fault.Short(rel)))
	}
	if pattern.dirOnly && a.Type == "file" {
		a.Type = "dir" // a pattern that ends in "/" cannot mean anything else
	}
	result, skipped := &findResult{Files: []string{}}, &skipList{}
	var counts folderCounts
	w := walk{filter: filter, depth: -1, skipped: skipped}
	w.visit = func(in *folder, at string, e fs.DirEntry) error {
		if a.Type != "any" && kind(e.Type()) != a.Type || !pattern.match(at[w.start:], e.Name(), e.IsDir()) {
			return nil
		}
		result.Count++
		counts.add(in.path)
		if result.Count > int(a.Offset) && len(result.Files) < int(a.Limit) {
			result.Files = append(result.Files, at)
		}
		return nil
	}
	if err := w.run(ctx, s, rel); err != nil {
		return nil, err
	}
	if len(result.Files) < result.Count {
		result.Folders = counts.top(rel)
	}
	result.page = pageAfter(int(a.Offset)+len(result.Files), result.Count)
	result.Skipped = skipped.list()
	return result, nil
}

// maxFolders bounds the folders that a result counts one by one.
const maxFolders = 50

// folderCounts counts matching files by folder.
type folderCounts struct {
	folders []folderCount // the counts in the order of a walk: entries of one folder may come in several runs
}

func (c *folderCounts) add(folder string) {
	if n := len(c.folders); n > 0 && c.folders[n-1].Path == folder {
		c.folders[n-1].Count++
		return
	}
	c.folders = append(c.folders, folderCount{folder, 1})
}

// top returns the sum of the counts for each folder directly below the common folder, and for the common folder itself if it directly
// contains matches. The common folder is the deepest one that contains all matches: from or a folder below it. The largest sums come
// first. If there are more than maxFolders, the last sum covers the rest; its path is the common folder's with "/…" at its end. There
// must be at least one count.
func (c *folderCounts) top(from string) []folderCount {
	common := c.folders[0].Path
	for _, f := range c.folders {
		for common != from && f.Path != common && !strings.HasPrefix(f.Path, common+"/") {
			common = path.Dir(common)
		}
	}
	sums := map[string]int{}
	for _, f := range c.folders {
		sums[firstBelow(common, f.Path)] += f.Count
	}
	all := make([]folderCount, 0, len(sums))
	for path, count := range sums {
		all = append(all, folderCount{path, count})
	}
	slices.SortFunc(all, func(a, b folderCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Path, b.Path))
	})
	if len(all) > maxFolders {
		rest := folderCount{Path: join(common, "…")}
		for _, f := range all[maxFolders-1:] {
			rest.Count += f.Count
		}
		all = append(all[:maxFolders-1], rest)
	}
	return all
}

// firstBelow returns the folder directly below common that contains folder, or common itself.
func firstBelow(common, folder string) string {
	if folder == common {
		return common
	}
	start := len(join(common, ""))
	name, _, _ := strings.Cut(folder[start:], "/")
	return folder[:start] + name
}
