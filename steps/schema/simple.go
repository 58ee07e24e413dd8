package schema

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// simpleSchema is a schema with common keywords only. It accepts most arguments from their bytes, without decoding them. Arguments
// that it does not accept may still be valid: the validator decides that and describes the faults. Without it, a forEach whose function has
// a schema allocates four times as often.
type simpleSchema struct {
	types    typeSet // 0: any
	members  map[string]*simpleSchema
	required map[string]uint // the bit of each name in a mask
	closed   bool            // no other members are allowed
	items    *simpleSchema
	values   []string // raw JSON; nil: any
	min, max *float64
}

// unsure accepts no value: it stands for the schema of a member that is not simple.
var unsure = &simpleSchema{values: []string{}}

// Bounds of a simple schema: its nesting; its required properties, which are bits of a uint64; and the length of a number, in characters,
// up to which comparing float64 values is exact.
const maxSimpleDepth, maxSimpleRequired, exactDigits = 16, 64, 15

// ignoredKeywords reject no value here: annotations, definitions (a schema with a reference is not simple), format, which is not checked,
// and nullable, which only allows more.
var ignoredKeywords = []string{
	"title", "description", "default", "examples", "example", "$schema", "$comment", "deprecated", "readOnly", "writeOnly", "format",
	"nullable",
	"$defs", "definitions",
}

// newSimpleSchema reads a schema; nil if it is not simple.
func newSimpleSchema(schema gjson.Result, depth int) *simpleSchema {
	if schema.Type == gjson.True {
		return &simpleSchema{}
	}
	if !schema.IsObject() || depth > maxSimpleDepth {
		return nil
	}
	simple, ok := &simpleSchema{}, true
	schema.ForEach(func(key, value gjson.Result) bool {
		ok = simple.keyword(key.String(), value, depth)
		return ok
	})
	if !ok {
		return nil
	}
	return simple
}

// keyword reads one keyword, and reports whether a simple schema can express it.
func (s *simpleSchema) keyword(name string, value gjson.Result, depth int) bool {
	switch name {
	case "type":
		for _, element := range value.Array() {
			set, known := typeSets[element.Str]
			if !known {
				return false
			}
			s.types |= set
		}
		return s.types != noType
	case "properties":
		s.members = map[string]*simpleSchema{}
		value.ForEach(func(key, member gjson.Result) bool {
			element := newSimpleSchema(member, depth+1)
			if element == nil { // arguments without the member can still be accepted
				element = unsure
			}
			s.members[key.String()] = element
			return true
		})
		return value.IsObject()
	case "required":
		s.required = map[string]uint{}
		for _, element := range value.Array() {
			s.required[element.Str] = uint(len(s.required))
		}
		return value.IsArray() && len(s.required) <= maxSimpleRequired && len(s.required) == len(value.Array())
	case "additionalProperties":
		s.closed = value.Type == gjson.False
		return value.IsBool() || value.Raw == "{}"
	case "items":
		s.items = newSimpleSchema(value, depth+1)
		return s.items != nil
	case "enum":
		s.values = []string{}
		for _, element := range value.Array() {
			if element.Type != gjson.String && !isInteger(element) || strings.Contains(element.Raw, `\`) {
				return false
			}
			s.values = append(s.values, element.Raw)
		}
		return value.IsArray()
	case "minimum":
		return parseLimit(&s.min, value)
	case "maximum":
		return parseLimit(&s.max, value)
	}
	return slices.Contains(ignoredKeywords, name) || strings.HasPrefix(name, "x-")
}

// parseLimit parses a limit that a float64 represents exactly.
func parseLimit(into **float64, value gjson.Result) bool {
	if !isInteger(value) || len(value.Raw) > exactDigits {
		return false
	}
	n := value.Num
	*into = &n
	return true
}

// isInteger reports whether a value is a number without a fraction or an exponent.
func isInteger(value gjson.Result) bool {
	return value.Type == gjson.Number && strings.Trim(strings.TrimPrefix(value.Raw, "-"), "0123456789") == ""
}

// accepts reports whether a value certainly matches the schema and has no duplicate key.
func (s *simpleSchema) accepts(value gjson.Result) bool {
	if s.types != noType && s.types&exactType(value) == 0 {
		return false
	}
	if s.values != nil && !slices.Contains(s.values, value.Raw) {
		return false
	}
	switch {
	case value.IsObject():
		return s.acceptsMembers(value)
	case value.IsArray():
		return s.acceptsItems(value)
	case value.Type == gjson.Number && (s.min != nil || s.max != nil):
		return len(value.Raw) <= exactDigits && (s.min == nil || value.Num >= *s.min) && (s.max == nil || value.Num <= *s.max)
	}
	return true
}

// maxSimpleMembers bounds the members of an object, which are compared for duplicate keys. An object with more is not accepted.
const maxSimpleMembers = 24

// anySchema allows any value.
var anySchema = &simpleSchema{}

func (s *simpleSchema) acceptsMembers(object gjson.Result) bool {
	var names [maxSimpleMembers]string
	n, seen, valid := 0, uint64(0), true
	object.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		if n == maxSimpleMembers || slices.Contains(names[:n], name) {
			valid = false
			return false
		}
		names[n] = name
		n++
		member := s.members[name]
		switch {
		case member != nil:
			valid = member.accepts(value)
		case s.closed:
			valid = false
		default:
			valid = anySchema.accepts(value)
		}
		if bit, ok := s.required[name]; ok {
			seen |= 1 << bit
		}
		return valid
	})
	return valid && seen == 1<<len(s.required)-1
}

func (s *simpleSchema) acceptsItems(array gjson.Result) bool {
	items, valid := s.items, true
	if items == nil {
		items = anySchema
	}
	array.ForEach(func(_, value gjson.Result) bool {
		valid = items.accepts(value)
		return valid
	})
	return valid
}

// exactType returns the type of a value. A number counts as an integer if its spelling shows that it is one.
func exactType(value gjson.Result) typeSet {
	switch {
	case value.Type != gjson.Number:
		return typeOf(value)
	case isInteger(value):
		return typeInteger
	}
	return typeFraction
}
