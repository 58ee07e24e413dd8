// Package format writes JSON values as texts: tables and lists, which cost a reader fewer tokens than JSON, or which other programs read.
// It works on raw compact JSON, so that numbers keep their spelling. A value that a format cannot hold is not written at all.
package format

import (
	"bytes"
	"strconv"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// The formats.
const (
	// JSON is the value as it is.
	JSON = "json"
	// Table is a line with the names of the members, with a comma between them, and a JSON array for each object.
	Table = "table"
	// CSV is a table as in RFC 4180, with line feeds.
	CSV = "csv"
	// Lines is a text as it is, or an array with a scalar on each line, strings without quotes.
	Lines = "lines"
	// Markdown is a table of GitHub Flavored Markdown.
	Markdown = "markdown"
	// Auto is the cheapest of JSON and the text that Lossless returns.
	Auto = "auto"
)

// Names returns the formats, as a request names them.
func Names() []string { return []string{JSON, Table, CSV, Lines, Markdown, Auto} }

// Write returns the text of a value in Table, CSV, Lines or Markdown. If the format cannot hold the value, text is nil, and why says what
// the format holds and what is in the way. A text of more than maxBytes may end early, after as many bytes; 0: no limit.
func Write(format string, value []byte, maxBytes int) (text []byte, why string) {
	if format == Lines {
		return lines(value, maxBytes)
	}
	var w writer
	switch format {
	case CSV:
		w = newCSV(maxBytes)
	case Markdown:
		w = &markdown{maxBytes: maxBytes}
	default:
		w = &table{maxBytes: maxBytes, text: make([]byte, 0, len(value)/2)}
	}
	if why := writeRows(value, w); why != "" {
		return nil, why
	}
	return w.finish(), ""
}

// Lossless returns the text from which a reader gets the same value back, and its format: Table, or Lines if all elements are strings. text
// is nil if there is none. It can be told apart from JSON, and a table from lines: no such text is JSON, and only a table has an array in
// its second line.
func Lossless(value []byte, maxBytes int) (format string, text []byte) {
	if len(value) < 2 || value[0] != '[' {
		return JSON, nil
	}
	switch value[1] {
	case '{':
		if text, _ := Write(Table, value, maxBytes); text != nil {
			return Table, text
		}
	case '"':
		if text := losslessLines(value, maxBytes); text != nil {
			return Lines, text
		}
	}
	return JSON, nil
}

// writer writes the rows of a table.
type writer interface {
	head(names [][]byte) (why string) // the names as JSON has them, with quotes; why is "" if the format can hold them
	cell(value []byte)
	end() (full bool) // ends a row
	finish() []byte
}

// writeRows writes an array of uniform objects. If they are not uniform, why says what is in the way.
func writeRows(value []byte, w writer) (why string) {
	if len(value) == 0 || value[0] != '[' {
		return "holds a list of objects, and this is none"
	}
	var names, first [][]byte
	element := 0
	for start, end := range rawjson.Elements(value) {
		if value[start] != '{' {
			return "holds objects, and element " + strconv.Itoa(element) + " is none"
		}
		column := 0
		for name, member := range rawjson.Members(value[start:end]) {
			if element == 0 {
				names, first = append(names, name), append(first, member)
				column++
				continue
			}
			if column == len(names) || !bytes.Equal(name, names[column]) {
				column = -1
				break
			}
			w.cell(member)
			column++
		}
		if column != len(names) {
			return "holds objects with the same names in the same order, and element " + strconv.Itoa(element) + " differs from element 0"
		}
		if element == 0 {
			if why := writeFirst(names, first, w); why != "" {
				return why
			}
		}
		if element++; w.end() {
			break
		}
	}
	if element == 0 {
		return "takes its columns from the first object, and there is none"
	}
	return ""
}

// writeFirst writes the names and the first row.
func writeFirst(names, values [][]byte, w writer) (why string) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[rawjson.View(name)] {
			return "has a column for each name, and the objects have " + string(name) + " twice"
		}
		seen[rawjson.View(name)] = true
	}
	if len(names) == 0 {
		return "has a column for each name, and the objects have none"
	}
	if why := w.head(names); why != "" {
		return why
	}
	for _, value := range values {
		w.cell(value)
	}
	return ""
}
