// Package diskstore keeps results in a folder, one compressed file each, so that they outlive the process: a command can fetch what an
// earlier command stored. Any number of processes may use the folder concurrently.
//
// A result appears completely or not at all, because a temporary file is renamed, and survives the death of the process that stored it.
// Files are not synced: after a power loss a file may be damaged. Checksums detect that, and the result reads as not found.
package diskstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/compressed"
	"github.com/onecall-mcp/onecall/budget/internal/recent"
	"github.com/onecall-mcp/onecall/fault"
)

// Options are the settings of a Store. Nil or a zero field means the default.
type Options struct {
	MaxBytes int64            // total size of the files; default 1 GiB, -1 for no limit
	Now      func() time.Time // the clock; default time.Now

	// MaxDecoded is how many bytes of recently read values are held in memory, so that reading one again does not decode it again. The
	// default is 64 MiB; -1 holds nothing. A value that is too large to be held is decoded for each read, once for concurrent reads.
	// After a minute without a read everything is released.
	MaxDecoded int64
}

// Store is a budget.Driver. Above MaxBytes it removes results of the owner that uses most, the oldest first. Between two scans of the whole
// folder, a process knows only of the results that it adds itself. It scans when it opens the store, once a minute while it adds results,
// and at the limit. Several processes together may exceed the limit for up to a minute.
type Store struct {
	dir    string
	o      Options // MaxBytes is guarded by mu
	codec  compressed.Codec
	recent *recent.Values[fileVersion]

	mu     sync.Mutex // guards the fields below and allows one sweep at a time
	bytes  int64      // total size of the folder, as far as this process knows
	swept  time.Time
	closed bool
}

// Open returns a store in a folder. It creates the folder with mode 0700 if necessary, and removes expired and damaged results. It never
// touches files whose names are not this package's. A folder that cannot be used, or that other users may write to, is unavailable; a
// limit below -1 is bad_request.
func Open(dir string, o *Options) (*Store, error) {
	s := &Store{dir: dir}
	if o != nil {
		s.o = *o
	}
	var err error
	if s.o.MaxBytes, err = budget.ResolveMaxBytes(s.o.MaxBytes); err != nil {
		return nil, err
	}
	switch {
	case s.o.MaxDecoded < -1:
		return nil, fault.New(fault.BadRequest, "The limit of decoded results in memory must be a number of bytes, or -1 for none, not %d.",
			s.o.MaxDecoded)
	case s.o.MaxDecoded == 0:
		s.o.MaxDecoded = recent.DefaultMaxBytes
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if err := prepare(dir); err != nil {
		return nil, err
	}
	s.recent = recent.New(s.o.MaxDecoded, fileVersion.equal)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sweep(""); err != nil {
		return nil, folderFault(dir, "cannot be read", err)
	}
	return s, nil
}

// prepare creates the folder and checks that only this user can write to it.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return folderFault(dir, "cannot be created", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return folderFault(dir, "cannot be read", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return folderFault(dir, "may be written to by others (chmod go-w)", nil)
	}
	trial, err := os.CreateTemp(dir, temporary)
	if err != nil {
		return folderFault(dir, "cannot be written to", err)
	}
	_ = trial.Close()
	return os.Remove(trial.Name())
}

func folderFault(dir, why string, err error) error {
	return &fault.Error{Code: fault.Unavailable, Message: "The folder for results, " + dir + ", " + why +
		". Name another folder, or keep results in memory.", Err: err}
}

// Close implements budget.Driver. The results stay in the folder.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.recent.Close()
	return nil
}

// checkUsable returns why an operation cannot start: ctx has ended or the store is closed.
func (s *Store) checkUsable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return budget.ErrClosed
	}
	return nil
}

// fileName returns the name of the file for a key, which may be any string.
func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]) + suffix
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	if len(e.Owner) > maxOwner {
		return fault.New(fault.Internal, "The owner of a result has %d bytes, but may have at most %d.", len(e.Owner), maxOwner)
	}
	f, err := os.CreateTemp(s.dir, temporary)                               // mode 0600
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(s.dir, 0o700) == nil { // someone deleted the folder
		f, err = os.CreateTemp(s.dir, temporary)
	}
	if err != nil {
		return err
	}
	name := fileName(key)
	size, err := s.write(ctx, f, name, e)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = s.checkSize(f.Name(), size, e.BaseOwner())
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path(name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	s.countAdded(size, name)
	return nil
}

// checkSize returns why a file of that size cannot be stored, or nil if it can. It scans the folder only for a file of more than half the
// limit, to see whether other owners have results.
func (s *Store) checkSize(path string, size int64, owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	alone := true
	if size > s.o.MaxBytes/2 && size <= s.o.MaxBytes {
		results, err := s.scan(filepath.Base(path))
		if err != nil {
			return err
		}
		alone = !slices.ContainsFunc(results, func(one resultFile) bool { return one.owner != owner })
	}
	return budget.CheckSize(size, s.o.MaxBytes, alone)
}

// SetMaxBytes implements budget.Driver. If the files together exceed the new limit, some are removed at once, or by the next Put if that
// fails.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	limit, err := budget.ResolveMaxBytes(maxBytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.MaxBytes = limit; s.bytes > limit && !s.closed {
		_ = s.sweep("")
	}
	return nil
}

// countAdded counts a new file and sweeps if it is time.
func (s *Store) countAdded(size int64, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += size
	if s.bytes > s.o.MaxBytes || s.o.Now().Sub(s.swept) >= sweepInterval {
		_ = s.sweep(name) // the result is stored; the next sweep tries again
	}
}

// write writes a file and returns its size.
func (s *Store) write(ctx context.Context, f *os.File, name string, e budget.Entry) (int64, error) {
	start := headerSize + int64(len(e.Owner))
	if _, err := f.Seek(start, io.SeekStart); err != nil {
		return 0, err
	}
	if err := s.codec.Write(ctx, f, e.Value); err != nil {
		return 0, err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	h := header{
		Expires: e.Expires.UnixNano(),
		Created: e.Created.UnixNano(),
		Size:    int64(len(e.Value)),
		Stored:  end - start,
		Owner:   uint32(len(e.Owner)),
	}
	h.seal(name, e.Owner)
	head, err := binary.Append(nil, binary.LittleEndian, h)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteAt(append(head, e.Owner...), 0)
	return end, err
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	f, _, _, err := s.open(key, os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(expires.UnixNano())), 0) // the header's first field
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	return s.remove(fileName(key))
}

func (s *Store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
