package openapi

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// pair is a member of an object: its unescaped name and its raw value.
type pair struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order, as slices of it.
func membersOf(object []byte) []pair {
	var members []pair
	for name, value := range rawjson.Members(object) {
		members = append(members, pair{rawjson.Unquote(string(name)), value})
	}
	return members
}

// elementsOf returns the elements of an array, as slices of it.
func elementsOf(array []byte) []jsontext.Value {
	var elements []jsontext.Value
	for start, end := range rawjson.Elements(array) {
		elements = append(elements, array[start:end])
	}
	return elements
}

// asText returns a string without quotes and escapes, and any other value as raw JSON.
func asText(value jsontext.Value) string {
	if value.Kind() != '"' {
		return string(value)
	}
	return rawjson.Unquote(string(value))
}

// styledValue is a value in the form that the styles of OpenAPI format: one text, a list of texts, or named texts. Deeper values become
// JSON text, because only the style deepObject can format them.
type styledValue struct {
	kind  jsontext.Kind // '[', '{', 'n' for a null, 0 for a single text
	names []string      // the names of an object's members
	texts []string
}

// newStyledValue converts a value. A null, or an element or member that is null, counts as missing (RFC 6570, section 2.3).
func newStyledValue(value jsontext.Value) styledValue {
	s := styledValue{kind: value.Kind()}
	switch s.kind {
	case 'n':
	case '[':
		for _, element := range elementsOf(value) {
			if element.Kind() != 'n' {
				s.texts = append(s.texts, asText(element))
			}
		}
	case '{':
		for _, member := range membersOf(value) {
			if member.value.Kind() != 'n' {
				s.names, s.texts = append(s.names, member.name), append(s.texts, asText(member.value))
			}
		}
	default:
		return styledValue{texts: []string{asText(value)}}
	}
	return s
}

// writeDeepObject formats a value in the style deepObject: name[key]=…, name[key][key]=…. The key of an array element is its index, because
// no other form distinguishes the objects in an array. The names are not escaped.
func writeDeepObject(name string, value jsontext.Value, add func(name, text string)) {
	switch value.Kind() {
	case 'n':
	case '{':
		for _, member := range membersOf(value) {
			writeDeepObject(name+"["+member.name+"]", member.value, add)
		}
	case '[':
		for i, element := range elementsOf(value) {
			writeDeepObject(name+"["+strconv.Itoa(i)+"]", element, add)
		}
	default:
		add(name, asText(value))
	}
}
