//go:build !linux

package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// readEntries calls add with each entry of a folder, until add fails.
func readEntries(_ *os.Root, d *os.File, add func(fs.DirEntry) error) error {
	for {
		list, err := d.ReadDir(10_000)
		for _, e := range list {
			if err := add(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
