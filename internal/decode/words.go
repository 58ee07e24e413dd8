// Package decode has the words of faults about values that are not what a field takes.
package decode

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

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
