package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// maxDepth bounds the nested folders that are open at once, and maxEntries the entries of one folder.
const maxDepth, maxEntries = 200, 1_000_000

// folder is an open folder of a walk. It closes when the walk and all readers of its files have released it.
type folder struct {
	root *os.Root
	path string // relative to the source's root, which is "."
	refs atomic.Int32
}

func newFolder(root *os.Root, path string) *folder {
	f := &folder{root: root, path: path}
	f.refs.Store(1)
	return f
}

func (f *folder) hold() { f.refs.Add(1) }

func (f *folder) release() {
	if f.refs.Add(-1) == 0 {
		f.root.Close()
	}
}

// entries returns the folder's entries, sorted so that a walk visits paths in the order of their bytes.
func (f *folder) entries() ([]fs.DirEntry, error) {
	d, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var all []fs.DirEntry
	err = readEntries(f.root, d, func(e fs.DirEntry) error {
		if all = append(all, e); len(all) > maxEntries {
			return fault.New(fault.LimitExceeded, "the folder %q has more than %d entries", fault.Short(f.path), maxEntries)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return all, nil
}

func sortKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// walk visits a tree of folders in the order of their paths. It visits links but does not follow them.
type walk struct {
	filter  *filter // nil: everything is visited, but ".git" folders are not entered
	depth   int     // folders below the first to enter; -1: all
	skipped *skipList
	// visit is called with each accepted entry; its path is relative to the source's root.
	visit func(in *folder, path string, e fs.DirEntry) error
	start int // length of the first folder's path with its "/"
}

// run walks the folder at rel.
func (w *walk) run(ctx context.Context, s *Source, rel string) error {
	root, err := openFolder(s.root, rel)
	if err != nil {
		return s.accessFault(rel, err)
	}
	first := newFolder(root, rel)
	w.start = len(join(rel, ""))
	var above *ignores
	if w.filter != nil && !w.filter.ignored {
		above = s.ignoresAbove(rel, w.skipped)
	}
	return w.visitFolder(ctx, first, above, 0)
}

// ignoresAbove returns the rules of the folders above rel, from the root on. A walk applies them to the contents of rel, but not to rel
// itself, because the caller named it.
func (s *Source) ignoresAbove(rel string, skipped *skipList) *ignores {
	if rel == "." {
		return nil
	}
	parent := path.Dir(rel)
	ignores := s.ignoresAbove(parent, skipped)
	root, err := openFolder(s.root, parent)
	if err != nil {
		return ignores
	}
	defer root.Close()
	return ignores.enter(root, parent, func(name string) bool {
		_, err := root.Lstat(name)
		return err == nil
	}, skipped)
}

// visitFolder visits the contents of an open folder, which it releases, and of the folders below it. ignores are the rules of the
// folders above.
func (w *walk) visitFolder(ctx context.Context, f *folder, ignores *ignores, depth int) error {
	defer f.release()
	entries, err := f.entries()
	if err != nil {
		if _, coded := fault.As(err); coded {
			return err
		}
		w.skipped.add(unreadable, f.path)
		return nil
	}
	if w.filter != nil && !w.filter.ignored {
		ignores = ignores.enter(f.root, f.path, func(name string) bool { return hasEntry(entries, name) }, w.skipped)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return contextFault(err)
		}
		at := join(f.path, e.Name())
		if w.filter != nil && !w.passes(ignores, at, e) {
			continue
		}
		if err := w.visit(f, at, e); err != nil {
			return err
		}
		if !e.IsDir() || e.Name() == ".git" || w.depth >= 0 && depth >= w.depth {
			continue
		}
		if depth >= maxDepth {
			w.skipped.add(tooDeep, at)
			continue
		}
		sub, err := openFolder(f.root, e.Name())
		if err != nil {
			w.skipped.add(unreadable, at)
			continue
		}
		if err := w.visitFolder(ctx, newFolder(sub, at), ignores, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// passes reports whether the filter accepts an entry. It also accepts a hidden entry if a .gitignore includes it again.
func (w *walk) passes(ignores *ignores, at string, e fs.DirEntry) bool {
	name := e.Name()
	if name == ".git" || w.filter.excluded(at[w.start:], name, e.IsDir()) {
		return false
	}
	ignored, included := ignores.decide(at, name, e.IsDir())
	if ignored || name[0] == '.' && !w.filter.hidden && !included {
		return false
	}
	return w.filter.include == nil || e.IsDir() || w.filter.include.match(at[w.start:], name, false)
}

func hasEntry(entries []fs.DirEntry, name string) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
}

// join appends a name to a folder's path; "." is the root.
func join(folder, name string) string {
	if folder == "." {
		return name
	}
	return folder + "/" + name
}
