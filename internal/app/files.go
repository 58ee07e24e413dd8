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

// watchedFile is a file that a configuration was read from, as it was at one moment.
type watchedFile struct {
	at     string // the place in the configuration that names it; "": it is the configuration
	path   string
	info   os.FileInfo // nil: there is none
	digest string      // of its content; "": it is no regular file, nor the folder of saved chains, or cannot be read
}

// fileState is the files that a configuration was read from, as they were at one moment.
type fileState []watchedFile

// add looks at files and reads them.
func (s *fileState) add(at string, paths ...string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		info, _ := os.Stat(path)
		digest := digestOf(path, info)
		if at == chainsAt && info != nil && info.IsDir() {
			digest = namesIn(path)
		}
		*s = append(*s, watchedFile{at, path, info, digest})
	}
}

// again is what the same files are now.
func (s fileState) again() (now fileState) {
	for _, file := range s {
		now.add(file.at, file.path)
	}
	return now
}

// look is as again, without reading the files.
func (s fileState) look() fileState {
	now := slices.Clone(s)
	for i := range now {
		now[i].info, _ = os.Stat(now[i].path)
	}
	return now
}

// untouched reports whether every file has the size, the time and the identity that it has in another state. A file system
// whose clock is coarse may hide the second of two writes, until SIGHUP.
func (s fileState) untouched(other fileState) bool {
	return slices.EqualFunc(s, other, func(a, b watchedFile) bool {
		if a.path != b.path || a.info == nil || b.info == nil {
			return a.path == b.path && a.info == nil && b.info == nil
		}
		return os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
	})
}

// equal reports whether every file has the content that it has in another state.
func (s fileState) equal(other fileState) bool {
	return slices.EqualFunc(s, other, func(a, b watchedFile) bool { return a.path == b.path && a.digest == b.digest })
}

// content tells what a place names from what it named before.
func (s fileState) content(at string) (digests string) {
	for _, file := range s {
		if file.at == at {
			digests += file.digest + " "
		}
	}
	return digests
}

// digestOf reads a file, as far as a document may be long.
func digestOf(path string, info os.FileInfo) string {
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

// namesIn is a digest of the names in a folder.
func namesIn(folder string) string {
	entries, _ := os.ReadDir(folder)
	hash := sha256.New()
	for _, entry := range entries {
		hash.Write([]byte(entry.Name() + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// loadable reports why the file of a configuration is not to be loaded in the place of one that is served; nil: it is.
func loadable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fault.New(fault.BadRequest, "%s cannot be read (%v)", path, textfile.Cause(err))
	case !info.Mode().IsRegular():
		return fault.New(fault.BadRequest, "%s is no regular file, and cannot be read again", path)
	case info.Size() > config.MaxBytes:
		return nil // which is told when it is loaded
	}
	if text, err := os.ReadFile(path); err == nil && len(bytes.TrimSpace(text)) == 0 {
		return fault.New(fault.BadRequest, "%s is empty (for a configuration that says nothing write {})", path)
	}
	return nil
}

// documentsOf gives the files of the OpenAPI documents by the place that names them. A file of keys is none of them: whoever
// checks tokens looks at it.
func documentsOf(c *config.File) map[string][]string {
	documents := map[string][]string{}
	for i := range c.OpenAPI {
		if files := documentFiles(&c.OpenAPI[i].Config); files != nil {
			documents[fault.Key("/openapi", c.OpenAPI[i].Name)+"/spec"] = files
		}
	}
	return documents
}

// isFile reports whether a text that may be a URL is the path of a file.
func isFile(place *string) bool {
	return place != nil && *place != "" && !strings.Contains(*place, "://")
}

// maxDocumentFiles bounds how many files of one document are looked at.
const maxDocumentFiles = 100

// documentFiles are the file of an OpenAPI document, and those in its folder that it refers to; nil where it is behind a URL.
func documentFiles(c *config.OpenAPI) []string {
	if !isFile(c.Spec) {
		return nil
	}
	folder, files := filepath.Dir(*c.Spec), []string{*c.Spec}
	left := int64(maxDocument)
	for i := 0; i < len(files) && i < maxDocumentFiles; i++ {
		text := regularText(files[i], left)
		left -= int64(len(text))
		for _, match := range otherFile.FindAllSubmatch(text, -1) {
			other := string(match[1])
			if strings.Contains(other, "://") || !filepath.IsLocal(filepath.FromSlash(other)) {
				continue
			}
			if path := filepath.Join(folder, filepath.FromSlash(other)); !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	return files
}

// maxDocument bounds the bytes of a document, all its files together, that are looked at: a longer one is refused.
const maxDocument = 128 << 20

// regularText is the text of a file; nothing where it cannot be read, is longer, or is a pipe, which waits for who writes.
func regularText(path string, longest int64) []byte {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > longest {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := textfile.ReadAll(file, longest) // it may have grown
	if err != nil || int64(len(text)) > longest {
		return nil
	}
	return text
}

// otherFile is a reference of a document to another file, in YAML or JSON.
var otherFile = regexp.MustCompile(`\$ref["']?\s*:\s*["']?([^\s"'#]+)`)
