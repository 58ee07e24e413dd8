package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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

// digests returns the digests of the files that the setting at pointer names, each followed by a blank.
func (s fileState) digests(pointer string) (digests string) {
	for _, file := range s {
		if file.pointer == pointer {
			digests += file.digest + " "
		}
	}
	return digests
}

// fileDigest hashes a file, up to the maximum length of a document; "": it cannot be read, or is not a regular file.
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
	if _, err := io.Copy(hash, io.LimitReader(file, maxDocument)); err != nil {
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

// documentsOf returns the files of the OpenAPI documents by the JSON Pointer of their setting. Files of JWT keys are not included:
// package auth watches them.
func documentsOf(c *config.File) map[string][]string {
	documents := map[string][]string{}
	for i := range c.OpenAPI {
		if files := documentFiles(&c.OpenAPI[i].Config); files != nil {
			documents[fault.Key("/openapi", c.OpenAPI[i].Name)+"/spec"] = files
		}
	}
	return documents
}

// isFile reports whether location is the path of a file, as opposed to a URL.
func isFile(location *string) bool {
	return location != nil && *location != "" && !strings.Contains(*location, "://")
}

// maxDocumentFiles is how many files of one document are watched.
const maxDocumentFiles = 100

// documentFiles returns the file of an OpenAPI document and the files in and below its folder that it refers to; nil: the document is at a
// URL.
func documentFiles(c *config.OpenAPI) []string {
	if !isFile(c.Spec) {
		return nil
	}
	folder, files := filepath.Dir(*c.Spec), []string{*c.Spec}
	remaining := int64(maxDocument)
	for i := 0; i < len(files) && i < maxDocumentFiles; i++ {
		text := readRegular(files[i], remaining)
		remaining -= int64(len(text))
		for _, match := range fileReference.FindAllSubmatch(text, -1) {
			reference := string(match[1]) + string(match[2]) // quoted or not
			if strings.Contains(reference, "://") || strings.HasPrefix(reference, "/") {
				continue
			}
			path := filepath.Join(filepath.Dir(files[i]), filepath.FromSlash(reference))
			below, err := filepath.Rel(folder, path)
			if err == nil && filepath.IsLocal(below) && !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	return files
}

// maxDocument is the maximum size in bytes of a document with all its files. Larger documents are refused.
const maxDocument = 128 << 20

// readRegular returns the content of a regular file; nil if it cannot be read or has more than maxBytes. It does not open pipes, which
// would block.
func readRegular(path string, maxBytes int64) []byte {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := textfile.ReadAll(file, maxBytes) // it may have grown
	if err != nil || int64(len(text)) > maxBytes {
		return nil
	}
	return text
}

// fileReference matches a reference to another file in a YAML or JSON document. A name without quotes ends where YAML's flow style ends it.
var fileReference = regexp.MustCompile(`\$ref["']?\s*:\s*(?:["']([^\n"'#]+)|([^\s"'#,{}\[\]]+))`)
