package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// namedFiles gives the files that are read when the configuration is loaded, but for itself, by the place that names them. A file of
// keys is none of them: whoever checks tokens looks at it.
func namedFiles(c *config.File) map[string][]string {
	named := map[string][]string{}
	for i := range c.OpenAPI {
		if files := documentFiles(&c.OpenAPI[i].Config); files != nil {
			named[fault.Key("/openapi", c.OpenAPI[i].Name)+"/spec"] = files
		}
	}
	return named
}

// isFile tells whether a text that may be a URL is the path of a file.
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
	left := int64(maxLooked)
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

// maxLooked bounds the bytes of a document, all its files together, that are looked at: a longer one is refused.
const maxLooked = 128 << 20

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

// digests are the contents of files, as far as they tell one from another. It is not for several goroutines.
type digests struct{ files map[string]*digested }

// digested is a file as it was when it was read last.
type digested struct {
	os.FileInfo
	settled bool // it was old enough when it was read: a change after that has another time
	blank   bool // there are only blanks in it
	digest  string
}

// settledAfter is how old a file must be for its time to tell whether it has changed: the clocks of file systems are coarse, and
// those of other machines wrong.
const settledAfter = 5 * time.Second

// What there is in the place of a digest.
const (
	gone      = "gone"      // there is no file
	irregular = "irregular" // a pipe or a device, which is not read twice
)

// of gives the digest of a file. The file is read where its time or size has changed, or its time is so new that it does not
// tell.
func (d *digests) of(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		delete(d.files, path)
		return gone
	}
	if !info.Mode().IsRegular() {
		return irregular
	}
	if known := d.files[path]; known != nil && known.settled && os.SameFile(known.FileInfo, info) && known.Size() == info.Size() && known.ModTime().Equal(info.ModTime()) {
		return known.digest
	}
	now := time.Now()
	text, blank, err := digest(path)
	if err != nil {
		delete(d.files, path)
		return gone
	}
	if d.files == nil {
		d.files = map[string]*digested{}
	}
	d.files[path] = &digested{info, now.Sub(info.ModTime()) > settledAfter, blank, text}
	return text
}

// digest reads a file, as far as one is looked at; blank tells that there are only blanks.
func digest(path string) (text string, blank bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer file.Close()
	hash, seen := sha256.New(), &blanks{only: true}
	if _, err := io.Copy(io.MultiWriter(hash, seen), io.LimitReader(file, maxLooked)); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(hash.Sum(nil)), seen.only, nil
}

// blanks finds out whether there is anything but blanks in what is written to it.
type blanks struct{ only bool }

// Write implements io.Writer.
func (b *blanks) Write(text []byte) (int, error) {
	b.only = b.only && len(bytes.TrimSpace(text)) == 0
	return len(text), nil
}

// sight is a configuration's file, and those that it names, as they are at one moment: their digests by their paths.
type sight map[string]string

// see looks at files.
func (d *digests) see(path string, named map[string][]string) sight {
	s := sight{}
	if path != "" {
		s[path] = d.of(path)
	}
	for _, files := range named {
		for _, path := range files {
			s[path] = d.of(path)
		}
	}
	return s
}

// holds tells whether all that another sight has seen is the same in this one.
func (s sight) holds(other sight) bool {
	for path, digest := range other {
		if s[path] != digest {
			return false
		}
	}
	return true
}

// contents are what the files that a configuration names hold, by the place that names them.
func (s sight) contents(named map[string][]string) map[string]string {
	contents := map[string]string{}
	for at, files := range named {
		for _, path := range files {
			contents[at] += s[path] + " "
		}
	}
	return contents
}

// lacking says why the file of a configuration is not to be loaded in the place of one that is served; "": it is.
func (d *digests) lacking(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be read (%v)", path, textfile.Cause(err))
	case !info.Mode().IsRegular():
		return path + " is no regular file, and cannot be read again"
	}
	if d.of(path); d.files[path] != nil && d.files[path].blank {
		return path + " is empty (for a configuration that says nothing write {})"
	}
	return ""
}
