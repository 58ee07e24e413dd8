package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

// entry is the source text of one server in a file that is edited: a client's file or onecall's configuration. The text includes the
// comments before the server.
type entry struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// editor edits single entries of a text in one format, and leaves the rest of the text unchanged. path holds the keys that lead to the
// object of servers.
type editor interface {
	// remove removes an entry and returns it.
	remove(text string, path []string, name string) (rest string, removed entry, err error)
	// insert adds an entry after the existing ones. It creates the object at path if necessary.
	insert(text string, path []string, one entry) (string, error)
	// render returns a new entry with these fields, formatted for insertion into text.
	render(text string, path []string, name string, fields []field) entry
}

func (f format) editor() editor {
	switch f {
	case tomlFormat:
		return tomlEditor{}
	case yamlFormat:
		return yamlEditor{}
	}
	return jsonEditor{}
}

// document is a file being edited.
type document struct {
	format format
	path   []string // the keys that lead to the object of servers
	text   string   // without a byte order mark; line breaks are \n if those of the file are all \r\n

	byteOrderMark, carriageReturns bool // what was removed from text; bytes restores it
}

func openDocument(f format, path []string, text []byte) *document {
	without := textfile.WithoutMark(text)
	d := &document{format: f, path: path, text: string(without), byteOrderMark: len(without) < len(text)}
	if lines := strings.Count(d.text, "\n"); lines > 0 && strings.Count(d.text, "\r\n") == lines {
		d.text, d.carriageReturns = strings.ReplaceAll(d.text, "\r\n", "\n"), true
	}
	return d
}

// bytes returns the text to write, with the byte order mark and the line endings that the file had.
func (d *document) bytes() []byte {
	text := d.text
	if d.carriageReturns {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if d.byteOrderMark {
		text = "\ufeff" + text
	}
	return []byte(text)
}

// remove removes the entry called name and returns it. If that would change anything else, it fails and the document stays as it is.
func (d *document) remove(name string) (removed entry, err error) {
	err = d.change(name, false, func(e editor) (text string, err error) {
		text, removed, err = e.remove(d.text, d.path, name)
		return text, err
	})
	return removed, err
}

// insert adds an entry. If that would change anything else, it fails and the document stays as it is.
func (d *document) insert(one entry) error {
	return d.change(one.Name, true, func(e editor) (string, error) { return e.insert(d.text, d.path, one) })
}

// render returns a new entry with these fields, formatted for insertion into the document.
func (d *document) render(name string, fields []field) entry {
	return d.format.editor().render(d.text, d.path, name, fields)
}

// errLayout reports a layout in which an edit of one entry would change or break something else.
var errLayout = errors.New("in the layout of this file, one entry cannot be changed alone")

// change applies edit to the document. To protect against bugs in the editors, it compares the data before and after: only the server
// called name may differ, and it must exist afterwards if and only if wantExists is set. Otherwise the document stays as it is, and change
// returns errLayout.
func (d *document) change(name string, wantExists bool, edit func(editor) (string, error)) error {
	if !utf8.ValidString(d.text) {
		return errors.New("it is not UTF-8")
	}
	before, _, err := d.dataWithout(d.text, name)
	if err != nil {
		return err
	}
	text, err := edit(d.format.editor())
	if err != nil {
		return err
	}
	after, exists, err := d.dataWithout(text, name)
	if err != nil || exists != wantExists || !reflect.DeepEqual(before, after) {
		return errLayout
	}
	d.text = text
	return nil
}

// dataWithout parses a text and returns its data without the server called name. Objects on the path to the server that are then empty are
// left out, too. exists reports whether the text has that server.
func (d *document) dataWithout(text, name string) (rest map[string]any, exists bool, err error) {
	object, err := d.format.json([]byte(text))
	if err != nil {
		return nil, false, err
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return nil, false, errors.New("it is not an object")
	}
	return prune(all, d.path, name)
}

// prune deletes the member called name from the object at path, and then each object on the path that has become empty. It changes object
// and returns it. exists reports whether the member existed.
func prune(object map[string]any, path []string, name string) (rest map[string]any, exists bool, err error) {
	if len(path) == 0 {
		_, exists = object[name]
		delete(object, name)
		return object, exists, nil
	}
	inner, ok := object[path[0]].(map[string]any)
	if !ok && object[path[0]] != nil {
		return nil, false, fmt.Errorf("%s is not an object", path[0])
	}
	inner, exists, err = prune(inner, path[1:], name)
	if len(inner) == 0 {
		delete(object, path[0])
	}
	return object, exists, err
}
