package format

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// lines writes a string as the text that it is, and an array of scalars with each on a line. A string with a line break would be several
// lines of an array, so it does not fit there.
func lines(value []byte, maxBytes int) (text []byte, why string) {
	switch {
	case len(value) > 0 && value[0] == '"':
		return append(make([]byte, 0, len(value)), rawjson.Unquote(rawjson.View(value))...), ""
	case len(value) == 0 || value[0] != '[':
		return nil, "holds a text, or a list of texts, numbers, booleans and nulls, and this is neither"
	}
	text = make([]byte, 0, len(value))
	element := 0
	for start, end := range rawjson.Elements(value) {
		if element > 0 {
			text = append(text, '\n')
		}
		switch scalar := value[start:end]; scalar[0] {
		case '[', '{':
			return nil, "holds no lists or objects, and element " + strconv.Itoa(element) + " is one"
		case '"':
			line := rawjson.Unquote(rawjson.View(scalar))
			if hasBreak(line) {
				return nil, "holds texts without line breaks, and element " + strconv.Itoa(element) + " has one"
			}
			text = append(text, line...)
		default:
			text = append(text, scalar...)
		}
		if exceeds(text, maxBytes) {
			break
		}
		element++
	}
	return text, ""
}

func hasBreak(line string) bool {
	return strings.IndexByte(line, '\n') >= 0 || strings.IndexByte(line, '\r') >= 0
}

// losslessLines writes an array of strings that a reader gets back from the text. It returns nil for any other value: another scalar, an
// empty string (nobody sees an empty last line) or U+FFFD (it may stand for what is no character), and for a text that looks like JSON or a
// table.
func losslessLines(value []byte, maxBytes int) []byte {
	for start, end := range rawjson.Elements(value) {
		if value[start] != '"' || end-start == 2 {
			return nil
		}
	}
	text, _ := lines(value, maxBytes)
	_, second, _ := bytes.Cut(text, []byte{'\n'})
	if text == nil || bytes.HasPrefix(second, []byte{'['}) || bytes.ContainsRune(text, utf8.RuneError) || gjson.ValidBytes(text) {
		return nil
	}
	return text
}
