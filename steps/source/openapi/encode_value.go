package openapi

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// pair is a member of an object: its name unescaped, its value as it is spelled.
type pair struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order, as pieces of it.
func membersOf(object []byte) []pair {
	var members []pair
	for name, value := range rawjson.Members(object) {
		members = append(members, pair{rawjson.Unquote(string(name)), value})
	}
	return members
}

// elementsOf returns the elements of an array, as pieces of it.
func elementsOf(array []byte) []jsontext.Value {
	var elements []jsontext.Value
	for start, end := range rawjson.Elements(array) {
		elements = append(elements, array[start:end])
	}
	return elements
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
func writtenOf(value jsontext.Value) written {
	s := written{kind: value.Kind()}
	switch s.kind {
	case 'n':
	case '[':
		for _, element := range elementsOf(value) {
			if element.Kind() != 'n' {
				s.texts = append(s.texts, plain(element))
			}
		}
	case '{':
		for _, member := range membersOf(value) {
			if member.value.Kind() != 'n' {
				s.names, s.texts = append(s.names, member.name), append(s.texts, plain(member.value))
			}
		}
	default:
		return written{texts: []string{plain(value)}}
	}
	return s
}

// deep writes a value in the style deepObject: name[key]=…, name[key][key]=…, and an array's elements with their index as
// the key, which is the one spelling that keeps objects in arrays apart. Names come unescaped.
func deep(name string, value jsontext.Value, add func(name, text string)) {
	switch value.Kind() {
	case 'n':
	case '{':
		for _, member := range membersOf(value) {
			deep(name+"["+member.name+"]", member.value, add)
		}
	case '[':
		for i, element := range elementsOf(value) {
			deep(name+"["+strconv.Itoa(i)+"]", element, add)
		}
	default:
		add(name, plain(value))
	}
}
