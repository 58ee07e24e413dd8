package plan

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// textReader replaces texts by the JSON in them, where a request takes only an array or an object: some MCP hosts send both as strings,
// and neither their models nor their users can change that. A text is read once; a text within it stays what it is.
type textReader struct {
	maxBytes int64
	read     []string      // JSON Pointers of the texts that were replaced
	opening  byte          // of the first of them: '[' or '{'
	faults   decode.Faults // texts that begin like JSON and are not JSON; they are not replaced
}

// textBeginnings are the beginnings of all strings, in compact JSON, that can hold an array or an object.
var textBeginnings = [][]byte{[]byte(`"[`), []byte(`"{`), []byte(`" `), []byte(`"\`)}

// request returns a compact request without such texts. A request that has none is returned as it is.
func (t *textReader) request(compact []byte) []byte {
	begins := func(beginning []byte) bool { return bytes.Contains(compact, beginning) }
	if !slices.ContainsFunc(textBeginnings, begins) {
		return compact
	}
	text := t.object(nil, gjson.ParseBytes(compact), "", func(dst []byte, name string, v gjson.Result, at string) []byte {
		f := requestTable.Field(name)
		if f == nil {
			f = fetchTable.Field(name)
		}
		return t.field(dst, f, v, at)
	})
	if len(t.read) == 0 {
		return compact
	}
	return text
}

// object appends an object, whose values member appends.
func (t *textReader) object(dst []byte, v gjson.Result, at string,
	member func(dst []byte, name string, v gjson.Result, at string) []byte) []byte {
	if !v.IsObject() {
		return append(dst, v.Raw...)
	}
	dst = append(dst, '{')
	separator := ""
	v.ForEach(func(key, value gjson.Result) bool {
		dst = append(append(append(dst, separator...), key.Raw...), ':')
		dst = member(dst, key.String(), value, fault.Key(at, key.String()))
		separator = ","
		return true
	})
	return append(dst, '}')
}

func (t *textReader) fields(dst []byte, v gjson.Result, at string, s *decode.Table) []byte {
	return t.object(dst, v, at, func(dst []byte, name string, v gjson.Result, at string) []byte {
		return t.field(dst, s.Field(name), v, at)
	})
}

// field appends the value of a field; nil: the member is not a field.
func (t *textReader) field(dst []byte, f *decode.Field, v gjson.Result, at string) []byte {
	switch {
	case f == nil || f.Opening == 0:
	case v.Type == gjson.String:
		return t.text(dst, v, at, f.Opening)
	case f.Name == "steps" && v.IsArray():
		dst = append(dst, '[')
		for i, step := range v.Array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = t.step(dst, "", step, fault.Index(at, i))
		}
		return append(dst, ']')
	case f.Name == "chain":
		return t.fields(dst, v, at, inlineTable)
	case f.Name == "replace":
		return t.object(dst, v, at, t.step)
	case f.Name == "params" && v.Get(budget.TokenField).Type == gjson.String:
		return t.fields(dst, v, at, fetchTable)
	}
	return append(dst, v.Raw...)
}

func (t *textReader) step(dst []byte, _ string, v gjson.Result, at string) []byte {
	if v.Type == gjson.String {
		return t.text(dst, v, at, '{')
	}
	return t.object(dst, v, at, func(dst []byte, name string, v gjson.Result, at string) []byte {
		f := stepTable.Field(name)
		if f == nil && v.Type == gjson.String && !isMisspelt(name, stepTable) { // the arguments in the short form
			return t.text(dst, v, at, '{')
		}
		return t.field(dst, f, v, at)
	})
}

// text appends the JSON in a text, or the text if it does not begin like JSON of the kind or cannot be read.
func (t *textReader) text(dst []byte, v gjson.Result, at string, opening byte) []byte {
	text := strings.TrimLeft(v.Str, " \t\r\n")
	if text == "" || text[0] != opening {
		return append(dst, v.Raw...)
	}
	compact, f := CompactJSON([]byte(text), t.maxBytes)
	if f == nil {
		if _, deep := rawjson.Outline(compact, maxJSONDepth-strings.Count(at, "/")); deep >= 0 {
			f = fault.New(fault.BadJSON, "nested deeper than %d levels", maxJSONDepth)
		}
	}
	if f != nil {
		t.faults.Add(fault.New(fault.BadJSON, "is a text, and the JSON in it cannot be read: %s", f.Message).Under(at))
		return append(dst, v.Raw...)
	}
	if len(t.read) == 0 {
		t.opening = opening
	}
	t.read = append(t.read, at)
	return append(dst, compact...)
}

// warning is the warning about the texts that were replaced; nil: there are none.
func (t *textReader) warning() *fault.Error {
	if len(t.read) == 0 {
		return nil
	}
	kind, more := "array", ""
	if t.opening == '{' {
		kind = "object"
	}
	if n := len(t.read) - 1; n > 0 {
		more = " (" + strconv.Itoa(n) + " more like this)"
	}
	return fault.New(fault.TextAsJSON, "was a string of JSON, and was read as the %s in it: send the %s itself%s", kind, kind, more).
		Under(t.read[0])
}
