package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/onecall-mcp/onecall/fault"
)

// writeRoot is a folder whose contents may be changed.
type writeRoot struct {
	path string // relative to the source's root
	root *os.Root
}

// openWrites opens the folders that may be changed, the deepest first, and notes what in them may not be.
func (s *Source) openWrites(o *Options) error {
	for i, name := range o.Write {
		root, rel, err := s.openWrite(name)
		if err != nil {
			f := fault.New(fault.BadRequest, "%q of the folders that may be changed is not a folder in the root: make it first, and name it without links",
				fault.Short(name))
			f.At, f.Err = fault.Index("/write", i), err
			return f
		}
		s.writes = append(s.writes, writeRoot{rel, root})
	}
	slices.SortStableFunc(s.writes, func(a, b writeRoot) int { return len(b.path) - len(a.path) })
	for _, name := range o.Guard {
		s.guard(name)
	}
	return nil
}

// openWrite opens a folder that may be changed. A link to one would give what is guarded another name.
func (s *Source) openWrite(name string) (*os.Root, string, error) {
	rel, err := s.cleanPath(name)
	if err == nil {
		err = (&place{rel: rel, name: rel, root: s.root}).refuseLinks()
	}
	if err != nil {
		return nil, "", err
	}
	root, err := openFolder(s.root, rel)
	return root, rel, err
}

// guard notes a path, and what it leads to if it goes through links, as one that must not be changed.
func (s *Source) guard(name string) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return // there is no working directory: no relative path leads anywhere
	}
	names := []string{absolute}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(absolute)); err == nil {
		names = append(names, filepath.Join(folder, filepath.Base(absolute)))
	}
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
		names = append(names, resolved)
	}
	for _, name := range names {
		if rel := s.belowRoot(name); rel != ".." {
			s.guarded = append(s.guarded, filepath.ToSlash(rel))
		}
	}
}

// place is a path that may be changed.
type place struct {
	argument string // the argument that named it
	rel      string // relative to the source's root, as results have it
	name     string // relative to root
	root     *os.Root
}

// placeOf returns the place that an argument names. It denies whatever the configuration does not open, the root folders themselves, what
// is guarded, and ".git", whose contents are programs and what they obey.
func (s *Source) placeOf(argument, name string) (*place, error) {
	p := &place{argument: argument}
	var err error
	if p.rel, err = s.cleanPath(name); err != nil {
		return nil, p.under(err)
	}
	i := slices.IndexFunc(s.writes, func(w writeRoot) bool { return w.path == "." || strings.HasPrefix(p.rel, w.path+"/") })
	if i < 0 || p.rel == "." {
		return nil, p.denied("%q is not in a folder that the configuration opens for writing (fs.write)", fault.Short(p.rel))
	}
	w := &s.writes[i]
	p.root, p.name = w.root, p.rel
	if w.path != "." {
		p.name = p.rel[len(w.path)+1:]
	}
	for segment := range strings.SplitSeq(p.rel, "/") {
		if strings.EqualFold(segment, ".git") || strings.EqualFold(segment, "git~1") { // its short name on Windows
			return nil, p.denied("%q is in a .git folder: only git changes that", fault.Short(p.rel))
		}
	}
	for _, guarded := range s.guarded {
		if within(p.rel, guarded) || within(guarded, p.rel) {
			return nil, p.denied("%q belongs to the configuration of onecall, which its functions do not change", fault.Short(p.rel))
		}
	}
	return p, p.refuseLinks()
}

// within reports whether a path is folder or below it. File systems may ignore case.
func within(name, folder string) bool {
	return len(name) >= len(folder) && strings.EqualFold(name[:len(folder)], folder) && (len(name) == len(folder) || name[len(folder)] == '/')
}

// refuseLinks refuses a path that goes through a link, because the same file would then have several names here.
func (p *place) refuseLinks() error {
	for at := p.name; at != "."; at = path.Dir(at) {
		if info, err := p.root.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return p.fault(fault.FunctionFailed, "%q goes through the link %q: name the file that it leads to", fault.Short(p.rel),
				fault.Short(at))
		}
	}
	return nil
}

func (p *place) fault(code fault.Code, format string, args ...any) *fault.Error {
	f := fault.New(code, format, args...)
	f.At = fault.Key("", p.argument)
	return f
}

func (p *place) denied(format string, args ...any) *fault.Error {
	return p.fault(fault.Denied, format, args...)
}

// under makes a fault about the argument path one about the argument that named the place.
func (p *place) under(err error) error {
	f, coded := fault.As(err)
	if !coded || f.At != "/path" {
		return err
	}
	g := *f
	g.At = fault.Key("", p.argument)
	return &g
}

// missing is the fault of a place that must hold something, and holds nothing.
func (s *Source) missing(p *place) error {
	f := s.missingFault(p.rel)
	f.At = fault.Key("", p.argument)
	return f
}

// failed returns the coded error of a change that the system refused: nothing was changed.
func (p *place) failed(err error) error {
	var f *fault.Error
	var errno syscall.Errno
	if _, coded := fault.As(err); coded {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = p.fault(fault.FunctionFailed, "%q or its folder does not exist: fs.mkdir makes folders", fault.Short(p.rel))
	case errors.Is(err, fs.ErrPermission):
		f = p.denied("the system does not let onecall change %q", fault.Short(p.rel))
	case errors.Is(err, fs.ErrClosed):
		f = p.fault(fault.Unavailable, "the file functions are closed")
		f.Outcome = fault.NotSent
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f = p.fault(fault.FunctionFailed, "no space is left for %q: nothing was changed", fault.Short(p.rel))
	case errors.Is(err, syscall.ENOTEMPTY):
		f = p.fault(fault.FunctionFailed, "the folder %q is not empty: remove what it holds first", fault.Short(p.rel))
	case errors.As(err, &errno):
		f = p.fault(fault.FunctionFailed, "%q cannot be changed: %s", fault.Short(p.rel), errno.Error())
	default: // os.Root's own refusal
		f = p.denied("%q leads out of the folder that may be changed", fault.Short(p.rel))
	}
	f.Err = err
	return f
}
