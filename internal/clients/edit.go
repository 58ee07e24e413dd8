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

// entry is a server in a client's file: its name, and its text with the comments before it.
type entry struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// editor edits the entries of a format, and leaves everything else unchanged. Lines end with a line feed alone.
type editor interface {
	// remove removes an entry and returns it.
	remove(text string, path []string, name string) (rest string, taken entry, err error)
	// insert adds an entry after the others. It creates the object at path if necessary.
	insert(text string, path []string, one entry) (string, error)
	// render returns the text of an entry in the style of this file.
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
	path   []string // the keys that lead to the object that holds the servers
	text   string   // without a byte order mark; lines end with a line feed alone

	byteOrderMark, carriageReturns bool // restored when writing
}

func openDocument(f format, path []string, text []byte) *document {
	without := textfile.WithoutMark(text)
	d := &document{format: f, path: path, text: string(without), byteOrderMark: len(without) < len(text)}
	if lines := strings.Count(d.text, "\n"); lines > 0 && strings.Count(d.text, "\r\n") == lines {
		d.text, d.carriageReturns = strings.ReplaceAll(d.text, "\r\n", "\n"), true
	}
	return d
}

// bytes returns the text to write, with the byte order mark and the line ends that the file had.
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

// remove removes the entry with a name, and returns it. If that would change anything else, it fails and the document stays as it is.
func (d *document) remove(name string) (taken entry, err error) {
	err = d.change(name, false, func(e editor) (text string, err error) {
		text, taken, err = e.remove(d.text, d.path, name)
		return text, err
	})
	return taken, err
}

// insert adds an entry. If that would change anything else, it fails and the document stays as it is.
func (d *document) insert(one entry) error {
	return d.change(one.Name, true, func(e editor) (string, error) { return e.insert(d.text, d.path, one) })
}

// render returns the text of an entry in the style of this document.
func (d *document) render(name string, fields []field) entry {
	return d.format.editor().render(d.text, d.path, name, fields)
}

// errLayout means that an edit would have changed more than the entry.
var errLayout = errors.New("it is written in a way in which one entry cannot be changed alone")

// change edits the document and compares its data before and after. They must differ only in one server, which must exist afterwards if
// and only if has is set. This protects against bugs in the editors.
func (d *document) change(name string, has bool, edit func(editor) (string, error)) error {
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
	if err != nil || exists != has || !reflect.DeepEqual(before, after) {
		return errLayout
	}
	d.text = text
	return nil
}

// dataWithout returns the data of a text except for one server and for empty objects on the path to it. exists reports whether that server
// is there.
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
	return pruned(all, d.path, name)
}

// pruned removes from object the member called name of the object at path, and the objects on the path that are empty then. exists reports
// whether there was such a member.
func pruned(object map[string]any, path []string, name string) (rest map[string]any, exists bool, err error) {
	if len(path) == 0 {
		_, exists = object[name]
		delete(object, name)
		return object, exists, nil
	}
	inner, ok := object[path[0]].(map[string]any)
	if !ok && object[path[0]] != nil {
		return nil, false, fmt.Errorf("%s is not an object", path[0])
	}
	inner, exists, err = pruned(inner, path[1:], name)
	if len(inner) == 0 {
		delete(object, path[0])
	}
	return object, exists, err
}
