package rights

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

// checkFileEvery is how often it is looked, when keys are used, whether their file has changed.
const checkFileEvery = time.Second

// keyFile is a file with an issuer's keys.
type keyFile struct {
	name     string
	accepted []jose.SignatureAlgorithm
	read     fs.FileInfo // of what was read last
}

// load reads the file where it has changed. A file that cannot be used is looked at again each time.
func (k *keyFile) load(_ context.Context, have *keySet) (*keySet, error) {
	info, err := os.Stat(k.name)
	if err != nil {
		return nil, shortened(err)
	}
	if !info.Mode().IsRegular() { // opening a FIFO would wait for somebody to write
		return nil, errors.New("it is no regular file")
	}
	if was := k.read; have != nil && was != nil && os.SameFile(was, info) && was.ModTime().Equal(info.ModTime()) && was.Size() == info.Size() {
		return have, nil
	}
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
	k.read = info
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
