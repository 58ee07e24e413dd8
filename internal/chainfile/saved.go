package chainfile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/jsonc"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Suffixes end the names of files that hold a saved chain; the first is the one that new files get.
var Suffixes = []string{".chain.json", ".chain.jsonc", ".chain.yaml", ".chain.yml"}

// Text is a chain as JSON, made of what a file holds.
type Text struct {
	JSON   []byte
	places func(at string) (line, column int) // nil: JSON has the lines and columns of the file
}

// Parse reads the text of a file; its name says what it holds. Faults have their lines and columns.
func Parse(name string, text []byte) (*Text, []*fault.Error) {
	text = textfile.WithoutMark(text)
	switch filepath.Ext(name) {
	case ".jsonc":
		return &Text{JSON: jsonc.ToJSON(text)}, nil // of the same length, with blanks in the place of comments
	case ".yaml", ".yml":
		value, places, faults := config.YAML(text)
		for _, f := range faults {
			f.Message = fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message) // as faults of JSON say it
		}
		return &Text{JSON: value, places: places}, faults
	}
	return &Text{JSON: text}, nil
}

// Locate gives faults the lines and columns that they have in the file.
func (t *Text) Locate(faults []*fault.Error) {
	if t.places == nil {
		chain.Locate(t.JSON, faults)
		return
	}
	for _, f := range faults {
		f.Line, f.Column = t.places(f.At)
	}
}

// Saved is a file in a folder of saved chains.
type Saved struct {
	Name string // of the chain
	Path string
}

// NameOf is the name of the chain that a file of this name holds; "": it holds none.
func NameOf(file string) string {
	for _, suffix := range Suffixes {
		if name, ok := strings.CutSuffix(filepath.Base(file), suffix); ok {
			return name
		}
	}
	return ""
}

// List lists the files of a folder that hold saved chains, sorted. A folder that is not there holds none.
func List(folder string) ([]Saved, error) {
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var list []Saved
	for _, entry := range entries {
		if name := NameOf(entry.Name()); name != "" && !entry.IsDir() {
			list = append(list, Saved{name, filepath.Join(folder, entry.Name())})
		}
	}
	return list, err
}

// InFolder is the file of a saved chain in a folder; "": there is none.
func InFolder(folder, name string) string {
	for _, suffix := range Suffixes {
		path := filepath.Join(folder, name+suffix)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// maxName leaves room for the name of the source in a tool's name.
const maxName = 58

var fitName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// CheckName reports what is wrong with the name of a saved chain; nil: nothing is.
func CheckName(name string) *fault.Error {
	if len(name) > maxName || !fitName.MatchString(name) || slices.Contains(strings.Split(name, "."), "") {
		return fault.New(fault.BadRequest, "%s cannot be the name of a saved chain: use letters, digits and . _ -, at most %d", fault.Quote(fault.Clip(name, 60)), maxName)
	}
	return nil
}

// ReadSaved reads the file of a saved chain. One that is longer than limit gives limit+1 bytes, which no engine accepts.
func ReadSaved(path string, limit int64) (*Text, []*fault.Error) {
	text, err := textfile.Read(path, limit)
	if err != nil {
		return nil, []*fault.Error{fault.New(fault.BadRequest, "cannot be read: %v", textfile.Cause(err))}
	}
	return Parse(path, text)
}
