package files

import (
	"context"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// defaultTreeDepth is how many levels of folders a tree shows if the call does not say.
const defaultTreeDepth = 2

type treeArgs struct {
	Path            string
	Depth           integer
	ExcludePatterns []string
	Hidden, Ignored bool
	Limit, Offset   integer
}

type treeResult struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`   // all that are below path, at any depth, and no folders
	Folders int    `json:"folders"` // likewise
	Tree    string `json:"tree"`    // a line for each entry down to the depth
	page
	Skipped []skip `json:"skipped,omitempty"`
}

// treeLine is a line of a tree.
type treeLine struct {
	level int
	name  string
	files *int // the files below a folder; nil: the line is not a folder's
}

func (s *Source) tree(ctx context.Context, a treeArgs) (*treeResult, error) {
	if err := checkPage(a.Limit, a.Offset); err != nil {
		return nil, err
	}
	if a.Depth < 1 {
		return nil, badArgument("depth", "depth is 1 or more: 1 is the folder's own entries")
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
		return nil, atPath(fault.New(fault.FunctionFailed, "%q is not a folder: fs.cat reads files", fault.Short(rel)))
	}
	result, skipped := &treeResult{Path: rel}, &skipList{}
	var lines []treeLine // those of the page
	var above []*int     // the counts of the shown folders that contain the current entry
	count := 0           // all lines
	w := walk{filter: filter, depth: -1, skipped: skipped}
	w.visit = func(_ *folder, at string, e fs.DirEntry) error {
		line := treeLine{level: strings.Count(at[w.start:], "/"), name: path.Base(at)}
		above = above[:min(line.level, len(above))]
		if e.IsDir() {
			result.Folders++
			line.files = new(int)
		} else {
			result.Files++
			for _, files := range above {
				*files++
			}
		}
		if line.level >= int(a.Depth) {
			return nil
		}
		if line.files != nil {
			above = append(above, line.files)
		}
		if count++; count > int(a.Offset) && len(lines) < int(a.Limit) {
			lines = append(lines, line)
		}
		return nil
	}
	if err := w.run(ctx, s, rel); err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, l := range lines {
		l.write(&text)
	}
	result.Tree = text.String()
	result.page = pageAfter(int(a.Offset)+len(lines), count)
	result.Skipped = skipped.list()
	return result, nil
}

// write writes the line: indented by a space for each level; of a folder with "/", and how many files are below. A name that could be
// mistaken for more than one line is quoted.
func (l *treeLine) write(text *strings.Builder) {
	for range l.level {
		text.WriteByte(' ')
	}
	if strings.ContainsAny(l.name, "\n\r") {
		l.name = strconv.Quote(l.name)
	}
	text.WriteString(l.name)
	if l.files != nil {
		text.WriteString("/ " + strconv.Itoa(*l.files))
	}
	text.WriteByte('\n')
}
