package steps

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
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
	blanks, deep := rawjson.Outline(value, most)
	switch {
	case deep >= 0:
		return nil, fault.New(fault.BadJSON, "nested more than %d deep", most)
	case !utf8.Valid(value):
		return nil, fault.New(fault.BadJSON, "not valid UTF-8")
	case !gjson.ValidBytes(value):
		return nil, syntaxFault(value)
	case blanks == 0:
		return value, nil
	}
	return rawjson.AppendCompact(make([]byte, 0, len(value)-blanks), value), nil
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
	start := d.i
	d.i = rawjson.StringEnd(d.b, start)
	return rawjson.Unquote(string(d.b[start:d.i]))
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
