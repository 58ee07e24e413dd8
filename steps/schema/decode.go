package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxDigits and maxExponent bound the length of a number in a validated value and its exponent, because numbers are compared exactly:
// 1e1000000000 has a billion digits. A float64 has an exponent of 324 at most.
const maxDigits, maxExponent = 1000, 400

// decode decodes a compact, valid JSON value for the validator. Numbers become json.Number and keep their spelling. It fails with
// bad_arguments for a duplicate key, which two readers could understand differently, or for a number that is too long to compare.
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
			f := fault.New(fault.BadArguments, "the key %s occurs twice", fault.Quote(key))
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
			exponent = maxExponent + 1 // it does not fit an int
		}
	}
	if len(number) > maxDigits || max(exponent, -exponent) > maxExponent {
		return nil, fault.New(fault.BadArguments, "the number is too long: at most %d characters and an exponent of at most %d are allowed",
			maxDigits, maxExponent)
	}
	return json.Number(number), nil
}
