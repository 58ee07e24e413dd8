// Package decode reads JSON objects into structs, strictly, and has the words of faults about objects and values that are not what a reader
// takes.
package decode

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxName bounds the characters of a name that a message repeats.
const maxName = 60

// Unknown is the fault for a member of the object at pointer that is none of the known ones. what is what such a member is called: field or
// key.
func Unknown(what, name, pointer string, known []string) *fault.Error {
	f := fault.New(fault.UnknownField, "unknown %s %q", what, fault.ClipRunes(name, maxName))
	f.At, f.Available, f.Nearest, f.Err = fault.Key(pointer, name), known, fault.Nearest(name, known, 1), fault.ErrUnknownKey
	if len(f.Nearest) > 0 {
		f.Message += ": did you mean " + f.Nearest[0] + "?"
	} else {
		f.Message += ": known here are " + strings.Join(known, ", ")
	}
	return f
}

// InsteadOf ends the sentence about a value of the wrong type. It recognizes an object or array that was sent as a string, as some
// clients do.
func InsteadOf(want string, got gjson.Result) string {
	if got.Type == gjson.String && gjson.Valid(got.Str) {
		switch parsed := gjson.Parse(got.Str); {
		case parsed.IsObject() && strings.Contains(want, "object"):
			return ": send the object itself, not a string of it"
		case parsed.IsArray() && strings.Contains(want, "array"):
			return ": send the array itself, not a string of it"
		}
	}
	return ", not " + Describe(got)
}

// Describe names a value in a sentence: its type, and what is written if that is short.
func Describe(v gjson.Result) string {
	switch {
	case v.IsObject():
		return "an object"
	case v.IsArray():
		return "an array"
	case v.IsBool():
		return "a boolean"
	case v.Type == gjson.String:
		if cut := fault.ClipRunes(v.Raw, 60); cut != v.Raw {
			return "the string " + cut + `"`
		}
		return "the string " + v.Raw
	case v.Type == gjson.Number:
		return "the number " + fault.ClipRunes(v.Raw, 60)
	}
	return "null"
}
