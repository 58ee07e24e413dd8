package schema

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// plain is what a schema says that has only the keywords of every day. It accepts most arguments on their bytes, without
// the work of decoding them and of the validator. What it does not accept may be right all the same: the validator
// decides, and finds the words.
type plain struct {
	types    typeSet // 0: any
	members  map[string]*plain
	required map[string]uint // its bit in a mask
	closed   bool            // no other members
	items    *plain
	values   []string // raw JSON; nil: any
	min, max *float64
}

// Bounds of what is plain.
const maxPlainDepth, maxPlainRequired, exactDigits = 16, 64, 15

// saysNothing are keywords by which no value is refused here: annotations, what only references reach (a schema with a
// reference is not plain), formats, which are not checked, and nullable, which only allows more.
var saysNothing = []string{
	"title", "description", "default", "examples", "example", "$schema", "$comment", "deprecated", "readOnly", "writeOnly", "format", "nullable",
	"$defs", "definitions",
}

// plainOf reads a schema; nil where it is not plain.
func plainOf(schema gjson.Result, depth int) *plain {
	if schema.Type == gjson.True {
		return &plain{}
	}
	if !schema.IsObject() || depth > maxPlainDepth {
		return nil
	}
	p, ok := &plain{}, true
	schema.ForEach(func(key, value gjson.Result) bool {
		ok = p.keyword(key.String(), value, depth)
		return ok
	})
	if !ok {
		return nil
	}
	return p
}

func (p *plain) keyword(name string, value gjson.Result, depth int) bool {
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
		p.members = map[string]*plain{}
		good := value.IsObject()
		value.ForEach(func(key, member gjson.Result) bool {
			one := plainOf(member, depth+1)
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
		return value.IsArray() && len(p.required) <= maxPlainRequired && len(p.required) == len(value.Array())
	case "additionalProperties":
		p.closed = value.Type == gjson.False
		return value.IsBool() || value.Raw == "{}"
	case "items":
		p.items = plainOf(value, depth+1)
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
		return takeLimit(&p.min, value)
	case "maximum":
		return takeLimit(&p.max, value)
	}
	return slices.Contains(saysNothing, name) || strings.HasPrefix(name, "x-")
}

// takeLimit takes a limit that a float holds exactly.
func takeLimit(into **float64, value gjson.Result) bool {
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

// accepts reports whether a value certainly fits the schema, and has no key twice.
func (p *plain) accepts(value gjson.Result) bool {
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

// maxPlainMembers bounds the members of an object that are compared for keys that stand twice.
const maxPlainMembers = 24

// anything is what a schema says that says nothing.
var anything = &plain{}

func (p *plain) acceptsMembers(object gjson.Result) bool {
	var names [maxPlainMembers]string
	n, seen, good := 0, uint64(0), true
	object.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		if n == maxPlainMembers || slices.Contains(names[:n], name) {
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
			good = anything.accepts(value)
		}
		if bit, ok := p.required[name]; ok {
			seen |= 1 << bit
		}
		return good
	})
	return good && seen == 1<<len(p.required)-1
}

func (p *plain) acceptsItems(array gjson.Result) bool {
	items, good := p.items, true
	if items == nil {
		items = anything
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
