package decode

import (
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Reader reads compact JSON into structs, strictly: it collects all faults and ignores nothing. The zero value is ready.
type Reader struct{ Faults Faults }

// Fault adds a fault.
func (r *Reader) Fault(code fault.Code, at, format string, args ...any) {
	r.Faults.Add(fault.New(code, format, args...).Under(at))
}

// WrongType adds the fault, bad_request, of a value that is not what it must be.
func (r *Reader) WrongType(at, want string, got gjson.Result) {
	if got.Type == gjson.String && r.Faults.At(at) { // a text whose JSON cannot be read
		return
	}
	r.Fault(fault.BadRequest, at, "must be %s%s", want, InsteadOf(want, got))
}

// Read is what is known of an object that was read.
type Read struct {
	HasUnknown     bool // a member is unknown
	NeedsValidator bool // a field has rules of the validator

	own   [maxOwn]Own // an array, which needs no allocation
	count int
}

// Own is a member that the caller of Object reads.
type Own struct {
	Name  string
	Value gjson.Result
}

// Own returns the values of the table's own fields, in the order of the text.
func (r *Read) Own() []Own { return r.own[:r.count] }

// keep keeps the value of an own field. Compact text has each name once; of a name that is there twice, the last value counts.
func (r *Read) keep(one Own) {
	i := 0
	for i < r.count && r.own[i].Name != one.Name {
		i++
	}
	r.own[i], r.count = one, max(r.count, i+1)
}

// maxNamedFields is how many fields a table may have to be listed in the fault of a value that is not an object.
const maxNamedFields = 4

// Object reads an object into the struct that into points to. other takes members that are not fields, unless it returns false; it may be
// nil. A fault about an unknown member lists the known names.
func (r *Reader) Object(value gjson.Result, at string, s *Table, into any, known []string,
	other func(name string, v gjson.Result) bool) (read Read) {
	if !value.IsObject() {
		want := "an object"
		if len(s.Names) <= maxNamedFields {
			want += " with " + strings.Join(s.Names, ", ")
		}
		r.WrongType(at, want, value)
		return read
	}
	fields := reflect.ValueOf(into).Elem()
	value.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		f := s.Field(name)
		switch {
		case f == nil && (other == nil || !other(name, v)):
			read.HasUnknown = true
			r.Faults.Add(Unknown("field", name, at, known))
		case f == nil:
		case v.Type == gjson.Null && f.Kind != "any" && !f.isList: // it counts as absent
		case f.isOwn:
			read.keep(Own{f.Name, v})
			read.NeedsValidator = read.NeedsValidator || f.rules
		default:
			read.NeedsValidator = r.field(f, fields.Field(f.index), v, at) || read.NeedsValidator
		}
		return true
	})
	return read
}

// field reads one value of an object at a pointer, and reports whether the validator must check it.
func (r *Reader) field(f *Field, into reflect.Value, v gjson.Result, object string) (check bool) {
	switch p := into.Addr().Interface().(type) {
	case *string:
		*p = r.text(v, object, f.Name)
		// The validator counts characters. There are never more of them than bytes.
		check = f.maxChars > 0 && len(*p) > f.maxChars
	case **string:
		if text := r.text(v, object, f.Name); v.Type == gjson.String { // nil differs from an empty text
			*p = &text
		}
	case *bool:
		if b := r.boolean(v, object, f.Name); b != nil {
			*p = *b
		}
	case **bool:
		*p = r.boolean(v, object, f.Name)
	case *int:
		if n := r.integer(f.Kind, v, object, f.Name); n != nil {
			*p = *n
		}
	case **int:
		*p = r.integer(f.Kind, v, object, f.Name)
	case *[]byte:
		*p = r.raw(f, v, object)
	case *[]string:
		*p = r.texts(f, v, fault.Key(object, f.Name))
	default: // a pointer to a struct
		inner := reflect.New(f.inner.structType)
		into.Set(inner)
		r.Object(v, fault.Key(object, f.Name), f.inner, inner.Interface(), f.inner.Names, nil)
	}
	return check || f.rules
}

// pointer returns the JSON Pointer of a member of an object; with no name, that of the object.
func pointer(object, name string) string {
	if name == "" {
		return strings.Clone(object) // so that it stays off the heap as long as there is no fault
	}
	return fault.Key(object, name)
}

// Text reads a text; "" after a fault.
func (r *Reader) Text(v gjson.Result, at string) string { return r.text(v, at, "") }

// Boolean reads a boolean; nil after a fault.
func (r *Reader) Boolean(v gjson.Result, at string) *bool { return r.boolean(v, at, "") }

// Integer reads a whole number that fits an int32, from 1 if the kind is page or count; nil after a fault, which is bad_page for a page.
// 1e3 and 1.0 are whole.
func (r *Reader) Integer(kind string, v gjson.Result, at string) *int {
	return r.integer(kind, v, at, "")
}

func (r *Reader) text(v gjson.Result, object, name string) string {
	if v.Type != gjson.String {
		r.WrongType(pointer(object, name), "a string", v)
	}
	return v.Str
}

func (r *Reader) boolean(v gjson.Result, object, name string) *bool {
	if !v.IsBool() {
		r.WrongType(pointer(object, name), "true or false", v)
		return nil
	}
	b := v.Bool()
	return &b
}

// maxInteger is greater than any limit.
const maxInteger = math.MaxInt32

func (r *Reader) integer(kind string, v gjson.Result, object, name string) *int {
	n := int(v.Num)
	high := v.Type == gjson.Number && v.Num > maxInteger
	whole := v.Type == gjson.Number && float64(n) == v.Num && n >= math.MinInt32
	switch {
	case (kind == "page" || kind == "count") && (high || !whole || n < 1):
		code, want := fault.BadRequest, "a whole number from 1"
		if kind == "page" {
			code = fault.BadPage
		}
		if high {
			want += " to " + strconv.Itoa(maxInteger)
		}
		r.Fault(code, pointer(object, name), "must be %s%s", want, InsteadOf(want, v))
	case high:
		r.WrongType(pointer(object, name), "at most "+strconv.Itoa(maxInteger), v)
	case !whole:
		r.WrongType(pointer(object, name), "a whole number", v)
	default:
		return &n
	}
	return nil
}

// raw returns a value as it is written; nil: it must be an object and is not, which is a fault.
func (r *Reader) raw(f *Field, v gjson.Result, object string) []byte {
	if f.Kind != "any" && !v.IsObject() {
		r.WrongType(fault.Key(object, f.Name), "an object", v)
		return nil
	}
	return []byte(v.Raw)
}

func (r *Reader) texts(f *Field, v gjson.Result, at string) []string {
	switch {
	case v.Type == gjson.String && f.Kind == "list":
		return []string{v.Str}
	case !v.IsArray():
		r.WrongType(at, "an array of strings", v)
		return nil
	}
	var texts []string
	v.ForEach(func(_, element gjson.Result) bool {
		if f.maxItems > 0 && len(texts) == f.maxItems {
			r.Fault(fault.LimitExceeded, at, "%s has more than %d elements: ask in several calls", f.Name, f.maxItems)
			return false
		}
		if element.Type != gjson.String {
			r.WrongType(fault.Index(at, len(texts)), "a string", element)
		}
		texts = append(texts, element.Str)
		return true
	})
	return texts
}
