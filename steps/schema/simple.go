package schema

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// simpleSchema is a schema that has only common keywords. It accepts most arguments from their bytes, without decoding them
// for the validator. Arguments that it does not accept may still be valid: the validator decides and words the faults.
type simpleSchema struct {
	types    typeSet // 0: any
	members  map[string]*simpleSchema
	required map[string]uint // its bit in a mask
	closed   bool            // no other members are allowed
	items    *simpleSchema
	values   []string // raw JSON; nil: any
	min, max *float64
}

// Bounds of a simple schema.
const maxSimpleDepth, maxSimpleRequired, exactDigits = 16, 64, 15

// ignoredKeywords refuse no value here: annotations, what only references reach (a schema with a reference is not simple),
// formats, which are not checked, and nullable, which only allows more.
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
	p, ok := &simpleSchema{}, true
	schema.ForEach(func(key, value gjson.Result) bool {
		ok = p.keyword(key.String(), value, depth)
		return ok
	})
	if !ok {
		return nil
	}
	return p
}

func (p *simpleSchema) keyword(name string, value gjson.Result, depth int) bool {
	switch name {
	case "type":
		for _, one := range value.Array() {
			set, known := typeSets[one.Str]
			if !known {
				return false
			}
			p.types |= set
		}
		return p.types != noType
	case "properties":
		p.members = map[string]*simpleSchema{}
		good := value.IsObject()
		value.ForEach(func(key, member gjson.Result) bool {
			one := newSimpleSchema(member, depth+1)
			p.members[key.String()] = one
			good = good && one != nil
			return good
		})
		return good
	case "required":
		p.required = map[string]uint{}
		for _, one := range value.Array() {
			p.required[one.Str] = uint(len(p.required))
		}
		return value.IsArray() && len(p.required) <= maxSimpleRequired && len(p.required) == len(value.Array())
	case "additionalProperties":
		p.closed = value.Type == gjson.False
		return value.IsBool() || value.Raw == "{}"
	case "items":
		p.items = newSimpleSchema(value, depth+1)
		return p.items != nil
	case "enum":
		p.values = []string{}
		for _, one := range value.Array() {
			if one.Type != gjson.String && !isInteger(one) || strings.Contains(one.Raw, `\`) {
				return false
			}
			p.values = append(p.values, one.Raw)
		}
		return value.IsArray()
	case "minimum":
		return parseLimit(&p.min, value)
	case "maximum":
		return parseLimit(&p.max, value)
	}
	return slices.Contains(ignoredKeywords, name) || strings.HasPrefix(name, "x-")
}

// parseLimit parses a limit that a float represents exactly.
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
func (p *simpleSchema) accepts(value gjson.Result) bool {
	if p.types != noType && p.types&exactType(value) == 0 {
		return false
	}
	if p.values != nil && !slices.Contains(p.values, value.Raw) {
		return false
	}
	switch {
	case value.IsObject():
		return p.acceptsMembers(value)
	case value.IsArray():
		return p.acceptsItems(value)
	case value.Type == gjson.Number && (p.min != nil || p.max != nil):
		return len(value.Raw) <= exactDigits && (p.min == nil || value.Num >= *p.min) && (p.max == nil || value.Num <= *p.max)
	}
	return true
}

// maxSimpleMembers bounds the members of an object that are compared for duplicate keys.
const maxSimpleMembers = 24

// anySchema allows any value.
var anySchema = &simpleSchema{}

func (p *simpleSchema) acceptsMembers(object gjson.Result) bool {
	var names [maxSimpleMembers]string
	n, seen, good := 0, uint64(0), true
	object.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		if n == maxSimpleMembers || slices.Contains(names[:n], name) {
			good = false
			return false
		}
		names[n] = name
		n++
		member := p.members[name]
		switch {
		case member != nil:
			good = member.accepts(value)
		case p.closed:
			good = false
		default:
			good = anySchema.accepts(value)
		}
		if bit, ok := p.required[name]; ok {
			seen |= 1 << bit
		}
		return good
	})
	return good && seen == 1<<len(p.required)-1
}

func (p *simpleSchema) acceptsItems(array gjson.Result) bool {
	items, good := p.items, true
	if items == nil {
		items = anySchema
	}
	array.ForEach(func(_, value gjson.Result) bool {
		good = items.accepts(value)
		return good
	})
	return good
}

// exactType tells numbers without a fraction from others, as far as their spelling shows it.
func exactType(value gjson.Result) typeSet {
	switch {
	case value.Type != gjson.Number:
		return typeOf(value)
	case isInteger(value):
		return typeInteger
	}
	return typeFraction
}
