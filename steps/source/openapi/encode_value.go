package openapi

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// pair is a member of an object: its name unescaped, its value as it is spelled.
type pair struct {
	name  string
	value jsontext.Value
}

var errNoObject = errors.New("a JSON object is needed")

// lenient: what stands twice in a value is the business of the service that gets it.
var lenient = jsontext.AllowDuplicateNames(true)

// membersOf reads the members of an object in their order. The values are pieces of text.
func membersOf(text []byte) ([]pair, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text), lenient)
	switch token, err := decoder.ReadToken(); {
	case err != nil:
		return nil, err
	case token.Kind() != '{':
		return nil, errNoObject
	}
	var members []pair
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		member := pair{name: name.String()} // before the value is read: a token lives until then
		if member.value, err = nextValue(decoder, text); err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	return members, nil
}

// elementsOf reads the elements of an array, pieces of text.
func elementsOf(text []byte) ([]jsontext.Value, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text), lenient)
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	var elements []jsontext.Value
	for decoder.PeekKind() != ']' {
		element, err := nextValue(decoder, text)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// nextValue is the value that the decoder of text reads next, as a piece of text instead of the decoder's memory.
func nextValue(decoder *jsontext.Decoder, text []byte) (jsontext.Value, error) {
	value, err := decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := decoder.InputOffset()
	return jsontext.Value(text[end-int64(len(value)) : end]), nil
}

// plain is a value as text: a string without its quotes and escapes, anything else as it is spelled.
func plain(value jsontext.Value) string {
	if value.Kind() != '"' {
		return string(value)
	}
	return rawjson.Unquote(string(value))
}

// written is a value as the styles of OpenAPI see it: one text, a list of texts, or texts with names. What lies deeper
// than that is text too, as JSON: no style but deepObject says how to write it.
type written struct {
	kind  jsontext.Kind // '[', '{', 'n' for a null, 0 for a single text
	names []string      // of an object's members
	texts []string
}

// writtenOf reads a value. A null, and an element or member that is null, counts as not given (RFC 6570, section 2.3).
func writtenOf(value jsontext.Value) (written, error) {
	switch value.Kind() {
	case 'n':
		return written{kind: 'n'}, nil
	case '[':
		elements, err := elementsOf(value)
		s := written{kind: '['}
		for _, element := range elements {
			if element.Kind() != 'n' {
				s.texts = append(s.texts, plain(element))
			}
		}
		return s, err
	case '{':
		members, err := membersOf(value)
		s := written{kind: '{'}
		for _, member := range members {
			if member.value.Kind() != 'n' {
				s.names, s.texts = append(s.names, member.name), append(s.texts, plain(member.value))
			}
		}
		return s, err
	}
	return written{texts: []string{plain(value)}}, nil
}

// deep writes a value in the style deepObject: name[key]=…, name[key][key]=…, and an array's elements with their index as
// the key, which is the one spelling that keeps objects in arrays apart. Names come unescaped.
func deep(name string, value jsontext.Value, add func(name, text string)) error {
	switch value.Kind() {
	case 'n':
		return nil
	case '{':
		members, err := membersOf(value)
		if err != nil {
			return err
		}
		for _, member := range members {
			if err := deep(name+"["+member.name+"]", member.value, add); err != nil {
				return err
			}
		}
		return nil
	case '[':
		elements, err := elementsOf(value)
		if err != nil {
			return err
		}
		for i, element := range elements {
			if err := deep(name+"["+strconv.Itoa(i)+"]", element, add); err != nil {
				return err
			}
		}
		return nil
	}
	add(name, plain(value))
	return nil
}
