package chain

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// shape is what the decoder knows of a struct type. It is made once at start, from the tags of the type's fields:
//
//   - json names the field; one without it is not read.
//   - kind says more than the Go type does: object and schemas are raw objects, any is any raw value, expression is a text
//     or a boolean, page is a page number or size.
//   - validate has the bounds, which the validator checks.
//
// The tags for readers (tool, manual) and the comments are for internal/gen.
type shape struct {
	of     reflect.Type
	fields []field
	names  []string // of the fields that are carried out
}

// later is the type of a field of the contract that is not built yet: it is known, and refused.
type later struct{}

type field struct {
	name  string
	index int
	kind  string
	inner *shape // of a field that points to a struct
	rules bool   // the validator has something to say
	most  int    // the only rule is that a text has at most so many characters; 0: it is not
}

var (
	requestShape = shapeOf(reflect.TypeFor[request]())
	fetchShape   = shapeOf(reflect.TypeFor[fetchRequest]())
	stepShape    = shapeOf(reflect.TypeFor[step]())
	inlineShape  = shapeOf(reflect.TypeFor[inline]())
)

func shapeOf(of reflect.Type) *shape {
	s := &shape{of: of}
	for i := range of.NumField() {
		tag := of.Field(i).Tag
		f := field{name: tag.Get("json"), index: i, kind: tag.Get("kind")}
		if f.name == "" {
			continue
		}
		rules := tag.Get("validate")
		t := of.Field(i).Type
		if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && rules != "-" {
			f.inner, f.rules = shapeOf(t.Elem()), true
		}
		if most, ok := strings.CutPrefix(rules, "max="); ok && t.Kind() == reflect.String {
			f.most, _ = strconv.Atoi(most)
		} else {
			f.rules = f.rules || rules != "" && rules != "-"
		}
		s.fields = append(s.fields, f)
		if t != reflect.TypeFor[later]() {
			s.names = append(s.names, f.name)
		}
	}
	return s
}

// FetchFields are the names of the fields of a fetch.
func FetchFields() []string { return slices.Clone(fetchShape.names) }

// field is the field of a name, nil if there is none.
func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// read is what the decoder finds out about an object beside its values.
type read struct {
	unknown bool // it has a field that is not known
	check   bool // it has a field about which the validator has something to say
}

// object reads the members of an object into a struct. A member that is no field is for other, which reports whether it
// knows the name; else it is a fault, which names the known ones.
func (d *decoder) object(value gjson.Result, at string, s *shape, into reflect.Value, known []string, other func(string, gjson.Result) bool) (r read) {
	if !value.IsObject() {
		d.wrongType(at, "an object", value)
		return r
	}
	value.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		if f := s.field(name); f != nil {
			r.check = d.field(f, into.Field(f.index), v, at) || r.check
		} else if other == nil || !other(name, v) {
			r.unknown = true
			d.unknown(name, at, known)
		}
		return true
	})
	return r
}

func (d *decoder) unknown(name, at string, known []string) {
	f := fault.New(fault.UnknownField, "unknown field %q", fault.ClipRunes(name, 60))
	f.At, f.Available, f.Nearest = fault.Key(at, name), known, fault.Nearest(name, known, 1)
	if len(f.Nearest) > 0 {
		f.Message += ": did you mean " + f.Nearest[0] + "?"
	} else {
		f.Message += ": known here are " + strings.Join(known, ", ")
	}
	d.faults.add(f)
}

// field reads one value, and reports whether the validator must look at it. null is as if the field were not there, but
// where any value may stand, and for steps.
func (d *decoder) field(f *field, into reflect.Value, v gjson.Result, at string) (check bool) {
	target := into.Addr().Interface()
	if _, isSteps := target.(*[]step); v.Type == gjson.Null && f.kind != "any" && !isSteps {
		return false
	}
	switch p := target.(type) {
	case *[]step:
		*p = d.steps(v, fault.Key(at, f.name))
	case *string:
		*p = d.text(f, v, at)
		check = f.most > 0 && len(*p) > f.most
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
	case **inline:
		*p = d.inline(v, fault.Key(at, f.name))
	case *later:
		d.notSupported(fault.Key(at, f.name), f.name)
	default:
		inner := reflect.New(f.inner.of)
		into.Set(inner)
		d.object(v, fault.Key(at, f.name), f.inner, inner.Elem(), f.inner.names, nil)
	}
	return check || f.rules
}
