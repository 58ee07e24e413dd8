package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// watchedFile is the state of a file that a configuration was read from.
type watchedFile struct {
	pointer string // the JSON Pointer of the setting that names it; "": the configuration itself
	path    string
	info    os.FileInfo // nil: the file does not exist
	digest  string      // of its content, or of the names in the folder of saved chains; "": it is neither a readable file nor that folder
}

// fileState is the state, at one moment, of the files that a configuration is read from.
type fileState []watchedFile

// add appends the state of the files that the setting at pointer names, including digests of their content.
func (s *fileState) add(pointer string, paths ...string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		info, _ := os.Stat(path)
		digest := fileDigest(path, info)
		if pointer == chainsPointer && info != nil && info.IsDir() {
			digest = folderDigest(path)
		}
		*s = append(*s, watchedFile{pointer, path, info, digest})
	}
}

// reread returns the current state of the same files.
func (s fileState) reread() (now fileState) {
	for _, file := range s {
		now.add(file.pointer, file.path)
	}
	return now
}

// restat is reread without reading the files: digests stay as they are.
func (s fileState) restat() fileState {
	now := slices.Clone(s)
	for i := range now {
		now[i].info, _ = os.Stat(now[i].path)
	}
	return now
}

// sameStat reports whether every file has the same size, time and identity in both states. If the file system's clock is coarse, the
// second of two quick writes may be missed until SIGHUP.
func (s fileState) sameStat(other fileState) bool {
	return slices.EqualFunc(s, other, func(a, b watchedFile) bool {
		if a.path != b.path || a.info == nil || b.info == nil {
			return a.path == b.path && a.info == nil && b.info == nil
		}
		return os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
	})
}

// sameContent reports whether every file has the same content in both states.
func (s fileState) sameContent(other fileState) bool {
	return slices.EqualFunc(s, other, func(a, b watchedFile) bool { return a.path == b.path && a.digest == b.digest })
}

// fileDigest hashes a file, up to maxHashed; "": it cannot be read, or is not a regular file.
func fileDigest(path string, info os.FileInfo) string {
	if info == nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(file, maxHashed)); err != nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// folderDigest hashes the names in a folder.
func folderDigest(folder string) string {
	entries, _ := os.ReadDir(folder)
	hash := sha256.New()
	for _, entry := range entries {
		hash.Write([]byte(entry.Name() + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// checkLoadable reports why a configuration file must not replace the one that is served; nil: it may.
func checkLoadable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fault.New(fault.BadRequest, "%s cannot be read (%v)", path, textfile.Cause(err))
	case !info.Mode().IsRegular():
		return fault.New(fault.BadRequest, "%s is not a regular file, and cannot be read again", path)
	case info.Size() > config.MaxBytes:
		return nil // config.Load reports it
	}
	if text, err := os.ReadFile(path); err == nil && len(bytes.TrimSpace(text)) == 0 {
		return fault.New(fault.BadRequest, "%s is empty (for a configuration without settings, write {})", path)
	}
	return nil
}

// maxHashed is how many bytes of a file its digest covers: the maximum of an OpenAPI document.
const maxHashed = 128 << 20
