package chainfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Suffixes end the names of files with a saved chain. New files get the first one.
var Suffixes = []string{".chain.json", ".chain.jsonc", ".chain.yaml", ".chain.yml"}

// SignatureSuffix ends the name of the file of a saved chain's signature.
const SignatureSuffix = ".chain.sig"

// Text is a chain as JSON, read from a file.
type Text struct {
	JSON       []byte
	positionOf func(at string, ofKey bool) (line, column int) // nil: JSON has the lines and columns of the file
}

// yamlObject matches text that begins with a key of YAML. JSON does not.
var yamlObject = regexp.MustCompile(`\A(?:[ \t]*(?:#.*|---[ \t]*)?\r?\n)*["']?[$\w-]+["']?[ \t]*:(?:\s|$)`)

// maxYAML bounds a chain in YAML, in bytes. The time of its parser, which cannot be stopped, grows with the square of the keys and other
// marks in it: this many bytes take a second or two at most, four MiB many minutes.
const maxYAML = 64 << 10

// Parse reads the text of a file, in the format that the suffix of its name says. With any other name, or none, the text is YAML if it
// begins as YAML does, and JSON otherwise. Faults have their lines and columns.
func Parse(name string, text []byte) (*Text, []*fault.Error) {
	text = textfile.WithoutMark(text)
	switch ext := filepath.Ext(name); {
	case ext == ".jsonc":
		plain, bad := textfile.PlainJSON(text)
		if bad != nil {
			return &Text{JSON: text}, []*fault.Error{{Code: fault.BadRequest, Line: bad.Line, Column: bad.Column, Message: bad.Error()}}
		}
		return &Text{JSON: plain}, nil
	case ext == ".yaml", ext == ".yml", ext != ".json" && yamlObject.Match(text):
		if len(text) > maxYAML {
			return &Text{JSON: text}, []*fault.Error{fault.New(fault.LimitExceeded, "the chain has more than %d bytes, which is as much as may be "+
				"in YAML: write it as JSON", maxYAML)}
		}
		value, positionOf, faults := config.YAML(text)
		for _, f := range faults {
			f.Message = fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message) // as in faults of JSON
		}
		return &Text{JSON: value, positionOf: positionOf}, faults
	}
	return &Text{JSON: text}, nil
}

// Locate sets the lines and columns of faults in the file.
func (t *Text) Locate(faults []*fault.Error) {
	if t.positionOf == nil {
		chain.Locate(t.JSON, faults)
		return
	}
	for _, f := range faults {
		f.Line, f.Column = t.positionOf(f.At, errors.Is(f.Err, fault.ErrUnknownKey))
	}
}

// SavedFile is a file in a folder of saved chains.
type SavedFile struct {
	Name string // the name of the chain
	Path string
}

// NameOf returns the name of the chain in a file with this name; "": the name has none of the Suffixes.
func NameOf(file string) string {
	for _, suffix := range Suffixes {
		if name, ok := strings.CutSuffix(filepath.Base(file), suffix); ok {
			return name
		}
	}
	return ""
}

// List lists the saved chains in a folder, sorted by the name of the file. A missing folder has none.
func List(folder string) ([]SavedFile, error) {
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var list []SavedFile
	for _, entry := range entries {
		if name := NameOf(entry.Name()); name != "" && !entry.IsDir() {
			list = append(list, SavedFile{name, filepath.Join(folder, entry.Name())})
		}
	}
	return list, err
}

// InFolder returns the path of a saved chain's file in a folder; "": there is none. Of several files, the one whose suffix
// comes first in Suffixes is returned.
func InFolder(folder, name string) string {
	for _, suffix := range Suffixes {
		path := filepath.Join(folder, name+suffix)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// maxName is the maximum length of a chain's name in bytes. With the source's name and a dot before it (chain.), that makes a tool's name
// of 64 bytes.
const maxName = 58

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// CheckName reports what is wrong with the name of a saved chain; nil: nothing.
func CheckName(name string) *fault.Error {
	if len(name) > maxName || !validName.MatchString(name) || slices.Contains(strings.Split(name, "."), "") {
		return fault.New(fault.BadRequest, "%s cannot be the name of a saved chain: use letters, digits and . _ -, at most %d characters",
			fault.Quote(fault.Clip(name, 60)), maxName)
	}
	return nil
}

// ReadSaved reads the file of a saved chain, cut to limit+1 bytes, which no engine accepts.
func ReadSaved(path string, limit int64) (*Text, []*fault.Error) {
	text, err := textfile.ReadFound(path, limit)
	if err != nil {
		return nil, []*fault.Error{fault.New(fault.BadRequest, "cannot be read: %v", textfile.Cause(err))}
	}
	return Parse(path, text)
}
