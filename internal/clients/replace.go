package clients

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// replace replaces the text of a file atomically, keeping its permissions, or creates the file. If file is a link, its target is replaced.
// c is the client that the file belongs to: only the client creates its folder. nil: the file belongs to no client.
func replace(c *Client, file string, text []byte) error {
	target, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = file, nil
		if c != nil && !isFolder(filepath.Dir(file)) {
			return noFolderError(c, file)
		}
	}
	mode := fs.FileMode(0o600)
	if info, missing := os.Stat(target); missing == nil {
		mode = info.Mode().Perm()
	}
	if err == nil {
		err = WriteFile(target, text, mode)
	}
	if err != nil {
		return fault.New(fault.BadRequest, "%s cannot be written: %v", target, textfile.Cause(err))
	}
	return nil
}

// noFolderError returns the error of a client whose folder does not exist yet.
func noFolderError(c *Client, file string) error {
	return fault.New(fault.BadRequest, "the folder %s does not exist: start %s once, so that it creates the folder; nothing was changed",
		filepath.Dir(file), c.Title)
}

// WriteFile writes a file atomically. A symbolic link in its place is replaced, and not followed.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()+".tmp")
	defer os.Remove(temporary)
	if err := writeSynced(temporary, text); err != nil {
		return err
	}
	if err := os.Chmod(temporary, mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// writeSynced creates a file for this user only, and syncs it.
func writeSynced(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}
