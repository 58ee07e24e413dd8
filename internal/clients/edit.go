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

// entry is a server in a client's file: its text as it stands there, with its name and the comments before it.
type entry struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// editor changes the entries of a format, and leaves all else as it is. Lines end with a line feed alone.
type editor interface {
	// take takes an entry out, and returns it.
	take(text string, path []string, name string) (rest string, taken entry, err error)
	// put adds an entry after the others. The object at path is made if it is not there.
	put(text string, path []string, one entry) (string, error)
	// render writes an entry as a text of this file.
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

// document is a file that is changed.
type document struct {
	format format
	path   []string // to the object of servers
	text   string   // without a byte order mark, lines ending with a line feed alone

	mark, returns bool // what is put back: a byte order mark, carriage returns
}

func openDocument(f format, path []string, text []byte) *document {
	without := textfile.WithoutMark(text)
	d := &document{format: f, path: path, text: string(without), mark: len(without) < len(text)}
	if lines := strings.Count(d.text, "\n"); lines > 0 && strings.Count(d.text, "\r\n") == lines {
		d.text, d.returns = strings.ReplaceAll(d.text, "\r\n", "\n"), true
	}
	return d
}

func (d *document) bytes() []byte {
	text := d.text
	if d.returns {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if d.mark {
		text = "\ufeff" + text
	}
	return []byte(text)
}

// take takes the entry of a name out. If that cannot be done so that all else stays, the document is as it was.
func (d *document) take(name string) (taken entry, err error) {
	err = d.change(name, false, func(e editor) (text string, err error) {
		text, taken, err = e.take(d.text, d.path, name)
		return text, err
	})
	return taken, err
}

// put adds an entry. If that cannot be done so that all else stays, the document is as it was.
func (d *document) put(one entry) error {
	return d.change(one.Name, true, func(e editor) (string, error) { return e.put(d.text, d.path, one) })
}

// render writes an entry as this document would hold it.
func (d *document) render(name string, fields []field) entry {
	return d.format.editor().render(d.text, d.path, name, fields)
}

// errLayout says that an edit would have changed more than it should.
var errLayout = errors.New("it is written in a way in which one entry cannot be changed alone")

// change edits the document, and compares it as data with what it was: both must say the same but for one server, which it has
// afterwards, or has not. Whatever an editor does, what would be lost is not written.
func (d *document) change(name string, has bool, edit func(editor) (string, error)) error {
	if !utf8.ValidString(d.text) {
		return errors.New("it is not UTF-8")
	}
	before, _, err := d.without(d.text, name)
	if err != nil {
		return err
	}
	text, err := edit(d.format.editor())
	if err != nil {
		return err
	}
	after, found, err := d.without(text, name)
	if err != nil || found != has || !reflect.DeepEqual(before, after) {
		return errLayout
	}
	d.text = text
	return nil
}

// without is what a text says but for one server, and for objects on the way to it that are empty. found tells that it has the server.
func (d *document) without(text, name string) (rest map[string]any, found bool, err error) {
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

func pruned(object map[string]any, path []string, name string) (rest map[string]any, found bool, err error) {
	if len(path) == 0 {
		_, found = object[name]
		delete(object, name)
		return object, found, nil
	}
	inner, ok := object[path[0]].(map[string]any)
	if !ok && object[path[0]] != nil {
		return nil, false, fmt.Errorf("%s is not an object", path[0])
	}
	inner, found, err = pruned(inner, path[1:], name)
	if len(inner) == 0 {
		delete(object, path[0])
	}
	return object, found, err
}
