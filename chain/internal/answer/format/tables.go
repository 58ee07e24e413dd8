package format

import (
	"bytes"
	"encoding/csv"
	"strings"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// table writes a line of names, and a line with the array of the values for each object.
type table struct {
	text     []byte
	maxBytes int
}

func (t *table) head(names [][]byte) (why string) {
	blank := true
	for i, name := range names {
		if bytes.ContainsAny(name, `,\`) {
			return "holds names without a comma and without escapes, and " + string(name) + " is another"
		}
		if i > 0 {
			t.text = append(t.text, ',')
		}
		name = rawjson.Inside(name)
		t.text = append(t.text, name...)
		blank = blank && len(bytes.TrimSpace(name)) == 0
	}
	if t.row(); blank {
		return "holds objects whose names are not blank"
	}
	return ""
}

// row begins a row.
func (t *table) row() { t.text = append(t.text, "\n["...) }

func (t *table) cell(value []byte) { t.text = append(append(t.text, value...), ',') }

func (t *table) end() (full bool) {
	t.text[len(t.text)-1] = ']'
	full = exceeds(t.text, t.maxBytes)
	t.row()
	return full
}

func (t *table) finish() []byte { return bytes.TrimSuffix(t.text, []byte("\n[")) }

// csvTable writes CSV. null is an empty field.
type csvTable struct {
	text     bytes.Buffer
	w        *csv.Writer
	record   []string
	maxBytes int
}

func newCSV(maxBytes int) *csvTable {
	t := &csvTable{maxBytes: maxBytes}
	t.w = csv.NewWriter(&t.text)
	return t
}

func (t *csvTable) head(names [][]byte) (why string) {
	for _, name := range names {
		t.cell(name)
	}
	t.end()
	return ""
}

func (t *csvTable) cell(value []byte) { t.record = append(t.record, plain(value)) }

func (t *csvTable) end() (full bool) {
	if len(t.record) == 1 && t.record[0] == "" { // as csv.Writer writes it, readers would skip the line
		t.w.Flush()
		t.text.WriteString("\"\"\n")
	} else {
		_ = t.w.Write(t.record) // a buffer takes everything
	}
	t.record = t.record[:0]
	return exceeds(t.text.Bytes(), t.maxBytes)
}

func (t *csvTable) finish() []byte {
	t.w.Flush()
	return bytes.TrimSuffix(t.text.Bytes(), []byte{'\n'})
}

// markdown writes a table of Markdown. null is an empty cell.
type markdown struct {
	text     []byte
	maxBytes int
}

func (t *markdown) head(names [][]byte) (why string) {
	for _, name := range names {
		t.cell(name)
	}
	t.end()
	for range names {
		t.text = append(t.text, "| --- "...)
	}
	t.end()
	return ""
}

// inCell replaces what would end a cell or a row.
var inCell = strings.NewReplacer("|", `\|`, "\r\n", "<br>", "\n", "<br>", "\r", "<br>")

func (t *markdown) cell(value []byte) {
	t.text = append(append(append(t.text, "| "...), inCell.Replace(plain(value))...), ' ')
}

func (t *markdown) end() (full bool) {
	t.text = append(t.text, "|\n"...)
	return exceeds(t.text, t.maxBytes)
}

func (t *markdown) finish() []byte { return bytes.TrimSuffix(t.text, []byte{'\n'}) }

// plain returns a value without JSON's own marks: the text of a string, nothing for null, any other value as written.
func plain(value []byte) string {
	switch value[0] {
	case '"':
		return rawjson.Unquote(rawjson.View(value))
	case 'n':
		return ""
	}
	return rawjson.View(value)
}

func exceeds(text []byte, maxBytes int) bool { return maxBytes > 0 && len(text) > maxBytes }
