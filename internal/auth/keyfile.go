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
	// checkFileEvery is how often it is looked, when keys are used, whether their file has changed.
	checkFileEvery = time.Second
	// settledAfter is how old a file must be for its time to tell whether it has changed: the clocks of file systems are coarse, and
	// those of other machines may be behind by less than that.
	settledAfter = 5 * time.Second
)

// keyFile is a file with an issuer's keys.
type keyFile struct {
	name     string
	accepted []jose.SignatureAlgorithm
	read     fs.FileInfo // of what was read last
	settled  bool        // it was old enough then: a change after that has another time
}

// load reads the file where it has changed, or may have. One that cannot be used, as while it is being written, is read again each
// time.
func (k *keyFile) load(_ context.Context, have *keySet) (*keySet, error) {
	info, err := os.Stat(k.name)
	if err != nil {
		return nil, shortened(err)
	}
	if !info.Mode().IsRegular() { // opening a FIFO would wait for somebody to write
		return nil, errors.New("it is no regular file")
	}
	if was := k.read; have != nil && was != nil && k.settled && os.SameFile(was, info) && was.ModTime().Equal(info.ModTime()) && was.Size() == info.Size() {
		return have, nil
	}
	settled := time.Since(info.ModTime()) > settledAfter // before it is read
	file, err := os.Open(k.name)
	if err != nil {
		return nil, shortened(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeysBytes+1))
	if err != nil {
		return nil, shortened(err)
	}
	set, err := readKeys(text, k.accepted, have)
	if err != nil {
		return nil, err
	}
	k.read, k.settled = info, settled
	return set, nil
}

// shortened is an error about a file without the operation.
func shortened(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}
