package login

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/onecall-mcp/onecall/fault"
)

// hasModes reports whether file permission bits mean anything; on Windows the user's folder is private anyway.
const hasModes = runtime.GOOS != "windows"

const maxFile = 4 << 20 // bytes

// newFileStore returns a store that keeps secrets in one JSON file that only its owner may read, in a folder that only its owner may write.
// The store creates both when needed. It refuses a file that others may read (denied).
func newFileStore(path string) Store { return &fileStore{path} }

type fileStore struct{ path string }

// fileContent is the content of the file. Values are base64, because they may be binary.
type fileContent struct {
	Version int               `json:"version"`
	Logins  map[string][]byte `json:"logins"`
}

// Kind implements Store.
func (s *fileStore) Kind() string { return "file" }

// Get implements Store. Files are replaced as a whole, so reading needs no lock.
func (s *fileStore) Get(_ context.Context, key string) ([]byte, error) {
	form, err := s.read()
	if err != nil {
		return nil, err
	}
	return form.Logins[key], nil
}

// Set implements Store.
func (s *fileStore) Set(ctx context.Context, key string, value []byte) error {
	if err := checkLength(value); err != nil {
		return err
	}
	return s.change(ctx, func(form *fileContent) bool { form.Logins[key] = value; return true })
}

// Delete implements Store.
func (s *fileStore) Delete(ctx context.Context, key string) error {
	return s.change(ctx, func(form *fileContent) bool {
		_, ok := form.Logins[key]
		delete(form.Logins, key)
		return ok
	})
}

// Lock implements Store.
func (s *fileStore) Lock(ctx context.Context, key string) (func(), error) {
	return lockFile(ctx, filepath.Dir(s.path), key)
}

// change reads, changes and replaces the file under a lock across processes.
func (s *fileStore) change(ctx context.Context, do func(*fileContent) (changed bool)) error {
	unlock, err := lockFile(ctx, filepath.Dir(s.path), filepath.Base(s.path))
	if err != nil {
		return err
	}
	defer unlock()
	form, err := s.read()
	if err != nil || !do(form) {
		return err
	}
	data, err := json.Marshal(form)
	if err != nil {
		return fault.New(fault.Internal, "the logins could not be encoded")
	}
	if len(data) > maxFile {
		return fault.New(fault.LimitExceeded, "%s would be more than %d bytes: log out of servers that are not used", s.path, maxFile)
	}
	return replaceFile(s.path, data)
}

// read reads the file. It returns empty content if there is none.
func (s *fileStore) read() (*fileContent, error) {
	form := &fileContent{Version: 1, Logins: map[string][]byte{}}
	f, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return form, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the logins in %s cannot be read: %s", s.path, clean(err.Error()))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return nil, fault.New(fault.Denied, "%s must be a regular file: move it away", s.path)
	case hasModes && info.Mode().Perm()&0o077 != 0:
		return nil, fault.New(fault.Denied, "others may read the logins in %s: run `chmod 600 %s`, "+
			"and log in again if others use this machine", s.path, s.path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(data) > maxFile {
		return nil, fault.New(fault.Unavailable, "the logins in %s cannot be read: move the file away and log in again", s.path)
	}
	if json.Unmarshal(data, form) != nil || form.Version != 1 {
		return nil, fault.New(fault.Unavailable, "%s is damaged or was written by another version: move it away and log in again", s.path)
	}
	if form.Logins == nil {
		form.Logins = map[string][]byte{}
	}
	return form, nil
}

// replaceFile replaces a file atomically: after a crash either the old or the new content is there.
func replaceFile(path string, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = fault.New(fault.Unavailable, "%s cannot be written: %s", path, clean(err.Error()))
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // readable by its owner only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
