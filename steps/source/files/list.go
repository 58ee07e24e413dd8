package files

import (
	"context"
	"io/fs"

	"github.com/onecall-mcp/onecall/fault"
)

type listArgs struct {
	Path          string
	Depth         integer
	Limit, Offset integer
}

type listEntry struct {
	Name string `json:"name"` // the name relative to the listed folder
	Path string `json:"path"`
	Type string `json:"type"`
	Size *int64 `json:"size,omitempty"` // the size of a file; nil: the entry is not a regular file
}

type listResult struct {
	Path    string      `json:"path"`
	Count   int         `json:"count"`
	Entries []listEntry `json:"entries"`
	page
	Skipped []skip `json:"skipped,omitempty"`
}

// page says whether a list continues, and at which offset.
type page struct {
	Truncated bool `json:"truncated,omitempty"`
	Next      int  `json:"next,omitempty"` // the offset of the next page
}

// pageAfter returns the page data of a result that ends before entry end of count; the zero page if nothing follows.
func pageAfter(end, count int) page {
	if end >= count {
		return page{}
	}
	return page{Truncated: true, Next: end}
}

func (s *Source) list(ctx context.Context, a listArgs) (*listResult, error) {
	if err := checkPage(a.Limit, a.Offset); err != nil {
		return nil, err
	}
	if a.Depth < 1 {
		return nil, badArgument("depth", "depth is 1 or more: 1 is the folder's own entries")
	}
	rel, info, err := s.locate(a.Path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, atPath(fault.New(fault.FunctionFailed, "%q is not a folder: fs.cat reads files", fault.Short(rel)))
	}
	result, skipped := &listResult{Path: rel, Entries: []listEntry{}}, &skipList{}
	w := walk{depth: int(a.Depth) - 1, skipped: skipped}
	w.visit = func(_ *folder, at string, e fs.DirEntry) error {
		result.Count++
		if result.Count > int(a.Offset) && len(result.Entries) < int(a.Limit) {
			entry := listEntry{Name: at[w.start:], Path: at, Type: kind(e.Type())}
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				size := info.Size()
				entry.Size = &size
			}
			result.Entries = append(result.Entries, entry)
		}
		return nil
	}
	if err := w.run(ctx, s, rel); err != nil {
		return nil, err
	}
	result.page = pageAfter(int(a.Offset)+len(result.Entries), result.Count)
	result.Skipped = skipped.list()
	return result, nil
}
