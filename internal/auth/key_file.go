package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// checkFileEvery is the minimum interval between checks of a key file.
	checkFileEvery = time.Second
	// minFileAge is the age from which an unchanged modification time proves that a file is unchanged. File systems have coarse clocks, and
	// those of other machines may be behind.
	minFileAge = 5 * time.Second
)

// keyFile is a file with an issuer's keys.
type keyFile struct {
	name     string
	accepted []jose.SignatureAlgorithm
	lastRead fs.FileInfo // state at the last read
	old      bool        // at the last read, the file was older than minFileAge
}

// load reads the file if it may have changed since have was read; otherwise it returns have. While the file is unusable, for example
// because it is being written, every call reads it again.
func (k *keyFile) load(_ context.Context, have *keySet) (*keySet, error) {
	info, err := os.Stat(k.name)
	if err != nil {
		return nil, withoutOperation(err)
	}
	if !info.Mode().IsRegular() { // opening a FIFO would block
		return nil, errors.New("it is not a regular file")
	}
	if have != nil && k.old && k.unchanged(info) {
		return have, nil
	}
	old := time.Since(info.ModTime()) > minFileAge // by the state before reading: a file that is written meanwhile is not old
	file, err := os.Open(k.name)
	if err != nil {
		return nil, withoutOperation(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeysBytes+1))
	if err != nil {
		return nil, withoutOperation(err)
	}
	set, err := readKeys(text, k.accepted, have)
	if err != nil {
		return nil, err
	}
	k.lastRead, k.old = info, old
	return set, nil
}

// unchanged reports whether the file looks as it did at the last read.
func (k *keyFile) unchanged(info fs.FileInfo) bool {
	was := k.lastRead
	return was != nil && os.SameFile(was, info) && was.ModTime().Equal(info.ModTime()) && was.Size() == info.Size()
}

// withoutOperation returns a file system error without its operation.
func withoutOperation(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}
