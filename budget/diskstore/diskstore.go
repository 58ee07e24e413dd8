// Package diskstore keeps results in a folder, one compressed file each, so that they outlive the process: a command can
// fetch what an earlier command kept. Any number of processes may use the folder at once.
//
// A result appears whole or not at all (a temporary file is renamed into place) and survives the death of the process
// that kept it. It is not forced to the disk: after a loss of power a file may be damaged, which its checksums tell, and
// the result reads as not found.
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

	"github.com/klauspost/compress/zstd"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/recent"
	"github.com/onecall-mcp/onecall/fault"
)

// chunk is how much is compressed or decompressed between two looks at the context.
const chunk = 1 << 20

// maxWindow bounds what a decoder remembers, and so its memory.
const maxWindow = 8 << 20

// Options are the settings of a Store; nil or a zero field stands for the default.
type Options struct {
	MaxBytes int64            // all files together, as they are on the disk; default 1 GiB, -1 for no bound
	Now      func() time.Time // the clock; default time.Now

	// MaxDecoded bounds in bytes what is held in memory of the values that were read last, so that reading one again does
	// not decode it again; default 64 MiB, -1 for nothing. A larger value is decoded each time, for all that read it at the
	// same time once. After a minute without a read all is let go of.
	MaxDecoded int64
}

// Store is a budget.Driver. Where MaxBytes is passed, the oldest results go first of the owner that has most. Each process counts what it adds
// itself and looks at the whole folder when it opens it, once a minute while it adds to it, and at the bound: for a
// minute at the most, several processes together may pass the bound.
type Store struct {
	dir      string
	o        Options // MaxBytes is guarded by mu
	encoders sync.Pool
	decoders sync.Pool
	recent   *recent.Values[decoded]

	mu     sync.Mutex // guards what follows; and one sweep at a time
	bytes  int64      // in the folder, as far as this process knows
	swept  time.Time
	closed bool
}

// Open makes a store in a folder, which is created with mode 0700 if it is not there, and removes what has expired or is
// damaged. Files that are not named as this package names its own are never touched. A folder that cannot be used, or
// that others may write to, is unavailable; a bound below -1 is bad_request.
func Open(dir string, o *Options) (*Store, error) {
	s := &Store{dir: dir}
	if o != nil {
		s.o = *o
	}
	var err error
	if s.o.MaxBytes, err = budget.Bound(s.o.MaxBytes); err != nil {
		return nil, err
	}
	switch {
	case s.o.MaxDecoded < -1:
		return nil, fault.New(fault.BadRequest, "The bound of what is held decoded must be a number of bytes, or -1 for nothing, not %d.", s.o.MaxDecoded)
	case s.o.MaxDecoded == 0:
		s.o.MaxDecoded = recent.Default
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if err := prepare(dir); err != nil {
		return nil, err
	}
	s.recent = recent.New(s.o.MaxDecoded, decoded.same)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sweep(""); err != nil {
		return nil, unusable(dir, "cannot be read", err)
	}
	return s, nil
}

// prepare makes the folder, and sees that it can be written to by this user alone.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unusable(dir, "cannot be made", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return unusable(dir, "cannot be read", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return unusable(dir, "may be written to by others (chmod go-w)", nil)
	}
	probe, err := os.CreateTemp(dir, temporary)
	if err != nil {
		return unusable(dir, "cannot be written to", err)
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}

func unusable(dir, why string, err error) error {
	return &fault.Error{Code: fault.Unavailable, Message: "The folder for results, " + dir + ", " + why + ". Name another folder, or keep results in memory.", Err: err}
}

// Close implements budget.Driver. The results stay in the folder.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.recent.Close()
	return nil
}

// ready is the error that keeps an operation from beginning.
func (s *Store) ready(ctx context.Context) error {
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

// nameOf is the name of the file for a key, whatever the key is.
func nameOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]) + suffix
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if len(e.Owner) > maxOwner {
		return fault.New(fault.Internal, "The owner of a result has %d bytes and may have %d.", len(e.Owner), maxOwner)
	}
	f, err := os.CreateTemp(s.dir, temporary)                               // mode 0600
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(s.dir, 0o700) == nil { // somebody emptied the cache
		f, err = os.CreateTemp(s.dir, temporary)
	}
	if err != nil {
		return err
	}
	name := nameOf(key)
	size, err := s.write(ctx, f, name, e)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = s.fits(f.Name(), size, e.Part())
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path(name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	s.added(size, name)
	return nil
}

// fits is what keeps a file of that size from being kept. Only for a large one the folder is looked through for what others
// have there.
func (s *Store) fits(path string, size int64, part string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	alone := true
	if size > s.o.MaxBytes/2 && size <= s.o.MaxBytes {
		results, err := s.look(filepath.Base(path))
		if err != nil {
			return err
		}
		alone = !slices.ContainsFunc(results, func(one stored) bool { return one.part != part })
	}
	return budget.CheckSize(size, s.o.MaxBytes, alone)
}

// SetMaxBytes implements budget.Driver. Files beyond the new bound are removed at once; what cannot be is tried again with the
// next result.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	most, err := budget.Bound(maxBytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.MaxBytes = most; s.bytes > most && !s.closed {
		_ = s.sweep("")
	}
	return nil
}

// added counts a new file, and sweeps when it is time to.
func (s *Store) added(size int64, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += size
	if s.bytes > s.o.MaxBytes || s.o.Now().Sub(s.swept) >= sweepEvery {
		_ = s.sweep(name) // the result is kept; what could not be removed now is tried again
	}
}

// write fills a file and returns its size.
func (s *Store) write(ctx context.Context, f *os.File, name string, e budget.Entry) (int64, error) {
	encoder, err := s.encoder(f)
	if err != nil {
		return 0, err
	}
	start := headerSize + int64(len(e.Owner))
	if _, err := f.Seek(start, io.SeekStart); err != nil {
		return 0, err
	}
	for rest := e.Value; len(rest) > 0; {
		n := min(len(rest), chunk)
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if _, err := encoder.Write(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	if err := encoder.Close(); err != nil {
		return 0, err
	}
	encoder.Reset(nil)
	s.encoders.Put(encoder)
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
	if err := s.ready(ctx); err != nil {
		return err
	}
	f, _, _, err := s.open(key, os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(expires.UnixNano())), 0)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.remove(nameOf(key))
}

func (s *Store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// encoder is a pooled encoder. Every store has its own pool: encoders and decoders hold channels, which bubbles of
// testing/synctest must not share.
func (s *Store) encoder(w io.Writer) (*zstd.Encoder, error) {
	if e, ok := s.encoders.Get().(*zstd.Encoder); ok {
		e.Reset(w)
		return e, nil
	}
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
}

func (s *Store) decoder(r io.Reader) (*zstd.Decoder, error) {
	if d, ok := s.decoders.Get().(*zstd.Decoder); ok {
		return d, d.Reset(r)
	}
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
}
