package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/fault"
)

// maxDigits and maxExponent bound the numbers that a schema compares: it does so exactly, and 1e1000000000 has a billion
// digits. A float64 has an exponent of 324 at most.
const maxDigits, maxExponent = 1000, 400

// decode gives a compact, valid JSON value as the validator takes it: numbers as json.Number with their spelling. What
// two readers could understand differently is bad_arguments: a key that stands twice in one object. So is a number that
// cannot be compared.
func decode(compact []byte) (any, *fault.Error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(compact), jsontext.AllowInvalidUTF8(true)) // a lone surrogate is no mistake
	value, err := decodeNext(d)
	if err == nil {
		return value, nil
	}
	if f, ok := fault.As(err); ok {
		return nil, f
	}
	f := fault.New(fault.BadArguments, "%v", err)
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(bad, jsontext.ErrDuplicateName) {
		f.Message, f.At = "the key "+fault.Quote(bad.JSONPointer.LastToken())+" stands twice", string(bad.JSONPointer)
	}
	return nil, f
}

func decodeNext(d *jsontext.Decoder) (any, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return decodeObject(d)
	case '[':
		array := []any{}
		for d.PeekKind() != ']' {
			value, err := decodeNext(d)
			if err != nil {
				return nil, err
			}
			array = append(array, value)
		}
		_, err = d.ReadToken()
		return array, err
	case '"':
		return token.String(), nil
	case '0':
		number := token.String()
		if tooLong(number) {
			f := fault.New(fault.BadArguments, "the number is too long to be compared")
			f.At = string(d.StackPointer())
			return nil, f
		}
		return json.Number(number), nil
	case 'n':
		return nil, nil
	}
	return token.Kind() == 't', nil
}

func decodeObject(d *jsontext.Decoder) (any, error) {
	object := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if object[key], err = decodeNext(d); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return object, err
}

// tooLong reports whether a number has too many digits to be compared.
func tooLong(number string) bool {
	if len(number) > maxDigits {
		return true
	}
	e := strings.IndexAny(number, "eE")
	if e < 0 {
		return false
	}
	exponent, err := strconv.Atoi(number[e+1:])
	return err != nil || max(exponent, -exponent) > maxExponent
}
