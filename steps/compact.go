package steps

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxDepth bounds the nesting of JSON: every later walk over it may recurse. That of results is a little less, so that
// what holds one (a line of a recording, an answer) can be read too; that of arguments is far less, as they are
// compared with schemas and recordings.
const maxDepth, maxResultDepth, maxArgsDepth = 10_000, 9_900, 1_000

// Compact checks that value is one JSON value (RFC 8259, UTF-8, nested at most 10,000 deep) and drops the white space
// between its tokens; all else keeps its bytes: number spellings, escapes, key order, duplicate keys. It returns the
// same slice when there is nothing to drop, and never changes value. Codes: bad_json, with Offset at the place.
func Compact(value []byte) ([]byte, error) {
	compact, f := compactJSON(value, maxDepth)
	if f != nil {
		return nil, f
	}
	return compact, nil
}

func compactJSON(value []byte, most int) ([]byte, *fault.Error) {
	blanks, deep := outline(value, most)
	switch {
	case deep:
		return nil, fault.New(fault.BadJSON, "nested more than %d deep", most)
	case !utf8.Valid(value):
		return nil, fault.New(fault.BadJSON, "not valid UTF-8")
	case !gjson.ValidBytes(value):
		return nil, syntaxFault(value)
	case blanks == 0:
		return value, nil
	}
	compact := make([]byte, 0, len(value)-blanks)
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := stringEnd(value, i)
			compact = append(compact, value[i:end]...)
			i = end
		default:
			compact = append(compact, value[i])
			i++
		}
	}
	return compact, nil
}

// outline counts the blanks between tokens and looks at the depth, before anything recurses over the value. It must
// cope with what is not JSON.
func outline(value []byte, most int) (blanks int, deep bool) {
	depth := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i = stringEnd(value, i) - 1
		case '{', '[':
			if depth++; depth > most {
				return 0, true
			}
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r':
			blanks++
		}
	}
	return blanks, false
}

// stringEnd returns the index after the string that begins with the quote at start; the end of b when it is not closed.
func stringEnd(b []byte, start int) int {
	i := start + 1
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		quote := i + n
		escapes := 0
		for quote-1-escapes >= i && b[quote-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return quote + 1
		}
		i = quote + 1
	}
}

func syntaxFault(value []byte) *fault.Error {
	f := fault.New(fault.BadJSON, "not one JSON value")
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(value, &raw), &syntax) {
		f.Message += ": " + syntax.Error()
		f.Offset = int(syntax.Offset)
	}
	return f
}

// maxDigits and maxExponent bound the numbers that a schema compares: it does so exactly, and 1e1000000000 has a billion
// digits. A float64 has an exponent of 324 at most.
const maxDigits, maxExponent = 1000, 400

// decode gives a compact, valid JSON value as the validator takes it: numbers as json.Number with their spelling. What
// two readers could understand differently is bad_arguments: a key that stands twice in one object. So is a number that
// cannot be compared.
func decode(compact []byte) (any, *fault.Error) {
	d := decoder{b: compact}
	return d.value()
}

type decoder struct {
	b []byte
	i int
}

func (d *decoder) value() (any, *fault.Error) {
	switch d.b[d.i] {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.text(), nil
	case 't':
		d.i += len("true")
		return true, nil
	case 'f':
		d.i += len("false")
		return false, nil
	case 'n':
		d.i += len("null")
		return nil, nil
	}
	return d.number()
}

func (d *decoder) object() (any, *fault.Error) {
	object := make(map[string]any)
	for d.i++; d.b[d.i] != '}'; {
		if d.b[d.i] == ',' {
			d.i++
		}
		key := d.text()
		d.i++ // the colon
		value, f := d.value()
		if f != nil {
			return nil, f.Under(fault.Key("", key))
		}
		if _, twice := object[key]; twice {
			f := fault.New(fault.BadArguments, "the key %s stands twice", quote(key))
			f.At = fault.Key("", key)
			return nil, f
		}
		object[key] = value
	}
	d.i++
	return object, nil
}

func (d *decoder) array() (any, *fault.Error) {
	array := []any{}
	for d.i++; d.b[d.i] != ']'; {
		if d.b[d.i] == ',' {
			d.i++
		}
		value, f := d.value()
		if f != nil {
			return nil, f.Under(fault.Index("", len(array)))
		}
		array = append(array, value)
	}
	d.i++
	return array, nil
}

func (d *decoder) text() string {
	end := stringEnd(d.b, d.i)
	raw := d.b[d.i:end]
	d.i = end
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	if bytes.Contains(raw, []byte(`\ud`)) || bytes.Contains(raw, []byte(`\uD`)) {
		var text string // gjson makes one character of two lone surrogates
		if err := json.Unmarshal(raw, &text); err == nil {
			return text
		}
	}
	return gjson.ParseBytes(raw).Str
}

func (d *decoder) number() (any, *fault.Error) {
	start := d.i
	for d.i < len(d.b) && strings.IndexByte("+-.0123456789eE", d.b[d.i]) >= 0 {
		d.i++
	}
	number := string(d.b[start:d.i])
	exponent := 0
	if e := strings.IndexAny(number, "eE"); e >= 0 && len(number) <= maxDigits {
		var err error
		if exponent, err = strconv.Atoi(number[e+1:]); err != nil {
			exponent = maxExponent + 1 // beyond what an int holds
		}
	}
	if len(number) > maxDigits || max(exponent, -exponent) > maxExponent {
		return nil, fault.New(fault.BadArguments, "the number is too long to be compared")
	}
	return json.Number(number), nil
}

// maxShown bounds, in characters, what a message shows of one value: a longer one may be a secret or a document.
const maxShown = 60

// shorten cuts a text for a message, between characters.
func shorten(text string) string { return fault.ClipRunes(text, maxShown+1) }

// quote writes a text for a message: shortened, as JSON.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(shorten(text)); err != nil {
		return `"…"`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
