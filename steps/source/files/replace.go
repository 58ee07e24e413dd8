package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"syscall"

	"github.com/onecall-mcp/onecall/fault"
)

// absent is the ifMatch of a file that must not exist.
const absent = "none"

// version is what a place held when a change began.
type version struct {
	info    fs.FileInfo // nil: there was nothing
	content []byte      // of a file, if it was asked for
	digest  string      // likewise
}

// change is a change of a file, one at a time.
type change struct {
	*place
	ifMatch *string
	digest  bool   // the digest of what was before is needed
	content bool   // and its content too
	instead string // what to do if that is too large
}

// begin waits for its turn, and returns what is at the place: nothing or a regular file, with the digest that the caller expects. The
// caller calls end after the change.
func (s *Source) begin(ctx context.Context, c *change) (before version, end func(), err error) {
	end, err = s.turn(ctx)
	if err != nil {
		return version{}, nil, err
	}
	if before, err = c.read(ctx, s.maxKeptBytes); err == nil {
		err = c.check(&before)
	}
	if err != nil {
		end()
		return version{}, nil, err
	}
	return before, end, nil
}

// turn waits until no other change is made. The caller calls end.
func (s *Source) turn(ctx context.Context) (end func(), err error) {
	select {
	case s.changing <- struct{}{}:
		return func() { <-s.changing }, nil
	case <-ctx.Done():
		return nil, unsent(ctx)
	}
}

// unsent is the fault of a change that was cancelled before it was made.
func unsent(ctx context.Context) *fault.Error {
	f := contextFault(ctx.Err())
	f.Outcome = fault.NotSent
	return f
}

// read returns what is at the place. It reads a file only if its content or digest is needed.
func (c *change) read(ctx context.Context, maxBytes int64) (version, error) {
	info, err := c.root.Lstat(c.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return version{}, nil
	case err != nil:
		return version{}, c.failed(err)
	case info.IsDir():
		return version{}, c.fault(fault.FunctionFailed, "%q is a folder", fault.Short(c.rel))
	case !info.Mode().IsRegular():
		return version{}, c.fault(fault.FunctionFailed, "%q is not a regular file: it is not changed", fault.Short(c.rel))
	case !c.content && !c.digest && c.ifMatch == nil:
		return version{info: info}, nil
	}
	f, info, err := openRegular(c.root, c.name)
	if err != nil {
		return version{}, c.failed(err)
	}
	defer f.Close()
	if c.content && info.Size() > maxBytes {
		return version{}, c.fault(fault.LimitExceeded, "%q has %d bytes, more than the %d that are kept for an undo: %s", fault.Short(c.rel),
			info.Size(), maxBytes, c.instead)
	}
	var content bytes.Buffer
	digest := sha256.New()
	var to io.Writer = digest
	if c.content {
		content.Grow(int(info.Size()) + bytes.MinRead)
		to = io.MultiWriter(digest, &content)
	}
	n, err := io.Copy(to, io.LimitReader(&cancellable{ctx, f}, info.Size()+1))
	switch {
	case ctx.Err() != nil:
		return version{}, unsent(ctx)
	case err != nil:
		return version{}, c.failed(err)
	case n != info.Size():
		return version{}, c.changed()
	}
	return version{info, content.Bytes(), digestText(digest)}, nil
}

// changed is the fault of a file that another program changes at the same time.
func (c *change) changed() *fault.Error {
	return c.fault(fault.Busy, "%q has changed meanwhile: nothing was done; read it again", fault.Short(c.rel))
}

// check compares what is at the place with what the caller expects.
func (c *change) check(before *version) error {
	rel := fault.Short(c.rel)
	switch {
	case c.ifMatch == nil || before.info != nil && before.digest == *c.ifMatch || before.info == nil && *c.ifMatch == absent:
		return nil
	case before.info == nil:
		return c.unmatched(fault.Busy, "%q does not exist any more, and ifMatch asks for its digest %s", rel, fault.Short(*c.ifMatch))
	case *c.ifMatch == absent:
		return c.unmatched(fault.Busy, "%q exists: its digest is %s", rel, before.digest)
	}
	return c.unmatched(fault.Busy, "%q has changed: its digest is %s, not %s; read it again", rel, before.digest, fault.Short(*c.ifMatch))
}

// unmatched is the fault of an ifMatch that does not hold.
func (c *change) unmatched(code fault.Code, format string, args ...any) *fault.Error {
	f := c.fault(code, format, args...)
	f.At = "/ifMatch"
	return f
}

// unchanged reports whether the place still holds what it held before, as far as the system tells without reading it.
func (c *change) unchanged(before *version) bool {
	info, err := c.root.Lstat(c.name)
	if before.info == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && os.SameFile(info, before.info) && info.Size() == before.info.Size() && info.ModTime().Equal(before.info.ModTime())
}

// newFileMode is the mode of a new file, less what the system masks.
const newFileMode = 0o666

// replace makes content what the place holds: it writes a file beside it, and renames that when it is on the disk. Whoever reads the place
// sees the old content or the new. mode 0: that of the file before, or of a new file.
func (c *change) replace(ctx context.Context, before *version, content []byte, mode fs.FileMode) error {
	temporary := path.Join(path.Dir(c.name), ".onecall-"+rand.Text()+".tmp")
	f, err := c.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFileMode)
	if err != nil {
		return c.failed(err)
	}
	renamed := false
	defer func() {
		if !renamed {
			_ = c.root.Remove(temporary)
		}
	}()
	if mode == 0 && before.info != nil {
		mode = before.info.Mode().Perm()
	}
	_, err = f.Write(content)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return c.failed(err)
	}
	if ctx.Err() != nil {
		return unsent(ctx)
	}
	if !c.unchanged(before) {
		return c.changed()
	}
	if err := c.root.Rename(temporary, c.name); err != nil {
		return c.failed(err)
	}
	renamed = true
	return c.settle()
}

// settle makes the entries of a place's folder durable. Systems that cannot do so for folders do it by themselves.
func (p *place) settle() error {
	folder, err := p.root.Open(path.Dir(p.name))
	if err != nil {
		return nil // it is gone already: another program has removed it
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && runtime.GOOS != "windows" && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		f := p.fault(fault.Unavailable, "%q was changed, but the system cannot say that the change survives a loss of power", fault.Short(p.rel))
		f.Err = err
		return f
	}
	return nil
}
