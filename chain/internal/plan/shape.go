package plan

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// shape describes the fields of a struct type for the decoder. It is built once at start, from the tags of the type's fields:
//
//   - json names the field. A field without it is not read.
//   - kind says more than the Go type: object and schemas are raw objects, any is any raw value, expression is a text
//     or a boolean, page is a page number or size.
//   - validate has the limits that the validator checks.
//
// The tags for readers (tool, manual) and the comments are for internal/gen.
type shape struct {
	structType reflect.Type
	fields     []field
	Names      []string
}

type field struct {
	name     string
	index    int
	kind     string
	inner    *shape // the shape of the struct that the field points to; nil: it points to none
	rules    bool   // the validator must check it
	opening  byte   // '[' or '{': the field takes only an array or an object; 0: it takes other values, too
	maxChars int    // the only rule is this maximum length; 0: there are other rules, or none
}

var (
	requestShape = shapeOf(reflect.TypeFor[Request]())
	fetchShape   = shapeOf(reflect.TypeFor[FetchRequest]())
	stepShape    = shapeOf(reflect.TypeFor[StepRequest]())
	inlineShape  = shapeOf(reflect.TypeFor[InlineRequest]())
)

func shapeOf(structType reflect.Type) *shape {
	s := &shape{structType: structType}
	for i := range structType.NumField() {
		tag := structType.Field(i).Tag
		t := structType.Field(i).Type
		f := field{name: tag.Get("json"), index: i, kind: tag.Get("kind"), opening: openingOf(t, tag.Get("kind"))}
		if f.name == "" {
			continue
		}
		rules := tag.Get("validate")
		if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && rules != "-" {
			f.inner, f.rules = shapeOf(t.Elem()), true
		}
		if limit, ok := strings.CutPrefix(rules, "max="); ok && t.Kind() == reflect.String {
			f.maxChars, _ = strconv.Atoi(limit)
		} else {
			f.rules = f.rules || rules != "" && rules != "-"
		}
		s.fields = append(s.fields, f)
		s.Names = append(s.Names, f.name)
	}
	return s
}

// openingOf returns the first byte of each value of a field, or 0 if they differ.
func openingOf(t reflect.Type, kind string) byte {
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return '['
	case kind == "object", kind == "schemas", t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return '{'
	}
	return 0
}

// TopFields returns the names of the fields of a chain, and those of members that it may have at its top level.
func TopFields(hoisted []string) []string { return slices.Concat(requestShape.Names, hoisted) }

// FetchFields returns the names of the fields of a fetch.
func FetchFields() []string { return slices.Clone(fetchShape.Names) }

// field returns the field with a name, or nil.
func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// objectInfo describes a decoded object, besides its values.
type objectInfo struct {
	hasUnknown     bool // a field is unknown
	needsValidator bool // a field has rules of the validator
}

// maxNamedFields is how many fields a shape may have to be listed in the fault of a value that is not an object.
const maxNamedFields = 4

// object decodes an object into a struct. A member that is not a field is passed to other, which reports whether it accepted it.
// Otherwise it is a fault that lists the known names.
func (d *decoder) object(value gjson.Result, at string, s *shape, into reflect.Value, known []string,
	other func(string, gjson.Result) bool) (r objectInfo) {
	if !value.IsObject() {
		want := "an object"
		if len(s.Names) <= maxNamedFields {
			want += " with " + strings.Join(s.Names, ", ")
		}
		d.wrongType(at, want, value)
		return r
	}
	value.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		if f := s.field(name); f != nil {
			r.needsValidator = d.field(f, into.Field(f.index), v, at) || r.needsValidator
		} else if other == nil || !other(name, v) {
			r.hasUnknown = true
			d.Faults.Add(decode.Unknown("field", name, at, known))
		}
		return true
	})
	return r
}

// field decodes one value, and reports whether the validator must check it. null counts as absent, except for steps and fields of any
// kind.
func (d *decoder) field(f *field, into reflect.Value, v gjson.Result, at string) (check bool) {
	target := into.Addr().Interface()
	if _, isSteps := target.(*[]StepRequest); v.Type == gjson.Null && f.kind != "any" && !isSteps {
		return false
	}
	switch p := target.(type) {
	case *[]StepRequest:
		*p = d.decodeSteps(v, fault.Key(at, f.name))
	case *string:
		*p = d.text(f, v, at)
		// The validator counts characters. There are never more of them than bytes.
		check = f.maxChars > 0 && len(*p) > f.maxChars
	case **string:
		*p = d.optionalText(f, v, at)
	case *bool:
		if b := d.boolean(f, v, at); b != nil {
			*p = *b
		}
	case **bool:
		*p = d.boolean(f, v, at)
	case *int:
		if n := d.integer(f, v, at); n != nil {
			*p = *n
		}
	case **int:
		*p = d.integer(f, v, at)
	case *[]byte:
		*p = d.raw(f, v, at)
	case *[]string:
		*p = d.texts(v, fault.Key(at, f.name))
	case **InlineRequest:
		*p = d.decodeInline(v, fault.Key(at, f.name))
	default: // a pointer to a struct
		inner := reflect.New(f.inner.structType)
		into.Set(inner)
		d.object(v, fault.Key(at, f.name), f.inner, inner.Elem(), f.inner.Names, nil)
	}
	return check || f.rules
}
