package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// maxPathBytes bounds a path argument, as Linux does.
const maxPathBytes = 4096

// maxNames bounds the names of a folder that are compared with a missing one.
const maxNames = 5000

// cleanPath converts a path argument to a clean path relative to the root, with "/". It accepts an absolute path below the root and denies
// a path that leads out of the root. It looks only at the text, because os.Root handles links.
func (s *Source) cleanPath(name string) (string, error) {
	switch {
	case name == "":
		return "", badArgument("path", `the path is empty: "." is the root`)
	case len(name) > maxPathBytes:
		return "", badArgument("path", "the path has %d bytes: at most %d", len(name), maxPathBytes)
	case strings.IndexByte(name, 0) >= 0:
		return "", badArgument("path", "the path holds a NUL character")
	}
	local := filepath.FromSlash(name)
	if filepath.IsAbs(local) {
		local = s.belowRoot(local)
	}
	if !filepath.IsLocal(local) {
		return "", outsideFault(name)
	}
	return filepath.ToSlash(filepath.Clean(local)), nil
}

// belowRoot makes an absolute path relative to the root; ".." if the path is not below the root.
func (s *Source) belowRoot(absolute string) string {
	for _, root := range s.rootPaths {
		if rel, err := filepath.Rel(root, absolute); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return ".."
}

func outsideFault(name string) *fault.Error {
	return atPath(fault.New(fault.Denied, "%q leads out of the folder that the file functions may read", fault.Short(name)))
}

func atPath(f *fault.Error) *fault.Error {
	f.At = "/path"
	return f
}

// locate returns the path of a path argument relative to the root, and the file or folder there. It follows links inside the root.
func (s *Source) locate(name string) (string, fs.FileInfo, error) {
	rel, err := s.cleanPath(name)
	if err != nil {
		return "", nil, err
	}
	info, err := s.root.Stat(rel)
	if err != nil {
		return "", nil, s.accessFault(rel, err)
	}
	return rel, info, nil
}

// accessFault returns the coded error of a path argument that could not be opened.
func (s *Source) accessFault(rel string, err error) error {
	var f *fault.Error
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = s.missingFault(rel)
	case errors.Is(err, fs.ErrPermission):
		f = fault.New(fault.Denied, "the system does not let onecall read %q", fault.Short(rel))
	case errors.Is(err, fs.ErrClosed):
		f = fault.New(fault.Unavailable, "the file functions are closed")
	case errors.Is(err, os.ErrDeadlineExceeded):
		f = fault.New(fault.FunctionFailed, "%q has no data yet: files that make a reader wait are not read", fault.Short(rel))
	case errors.Is(err, syscall.ENOTDIR):
		f = fault.New(fault.FunctionFailed, "%q goes through something that is not a folder", fault.Short(rel))
	case errors.As(err, &errno):
		f = fault.New(fault.FunctionFailed, "%q cannot be read: %s", fault.Short(rel), errno.Error())
	default: // os.Root's own refusal, which has no exported name and is not a system error
		f = outsideFault(rel)
	}
	f.Err = err
	return atPath(f)
}

// missingFault returns the fault of a path that does not exist. It names the first part that is missing, and similar names in the folder
// where that part would be.
func (s *Source) missingFault(rel string) *fault.Error {
	folder, name := path.Split(rel)
	for folder = path.Clean("./" + folder); folder != "."; folder = path.Dir(folder) {
		if info, err := s.root.Stat(folder); err == nil && info.IsDir() {
			break
		}
		name = path.Base(folder)
	}
	f := fault.New(fault.FunctionFailed, "%q does not exist: the folder %q has no %q", fault.Short(rel), fault.Short(folder),
		fault.Short(name))
	if d, err := s.root.OpenFile(folder, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
		defer d.Close()
		names, _ := d.Readdirnames(maxNames)
		if f.Nearest = fault.Nearest(name, names, 3); len(f.Nearest) > 0 {
			f.Message += "; nearest: " + strings.Join(f.Nearest, ", ")
		}
	}
	return f
}

var errNotRegular = errors.New("not a regular file")

// maxWait bounds one read if there is nothing to read yet.
const maxWait = 100 * time.Millisecond

// regularFile is a regular file whose reads do not block. Files on a disk never do. A system file such as /proc/kmsg may have
// nothing to read for a long time; reading it then fails with os.ErrDeadlineExceeded.
type regularFile struct{ *os.File }

// Read implements io.Reader.
func (f *regularFile) Read(b []byte) (int, error) {
	_ = f.SetReadDeadline(time.Now().Add(maxWait)) // fails for files on a disk, which need none
	return f.File.Read(b)
}

// openRegular opens a file for reading without blocking. If a FIFO has replaced the file, it is detected and closed.
func openRegular(root *os.Root, name string) (*regularFile, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &regularFile{f}, info, nil
}

// openFolder opens a folder below root as its own root. With the final "." the system refuses anything but a folder; opening a FIFO
// by its name would wait for a writer.
func openFolder(root *os.Root, name string) (*os.Root, error) { return root.OpenRoot(name + "/.") }

// kind returns the word for a file's type: file, dir, link or other.
func kind(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "link"
	}
	return "other"
}
