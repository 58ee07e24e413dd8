package decode

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Table has the fields of a struct type, from their tags:
//
//   - json names the field. A field without it is not read.
//   - kind says more than the Go type: object and schemas are raw objects, any is any raw value, page and count are whole numbers from 1
//     (page with a code of its own), list is an array of strings, or one string. Its reader may know more.
//   - validate has the limits that the validator checks; max, the maximum number of elements of an array of strings.
//
// It is made once, at start.
type Table struct {
	Names      []string // of the fields, in order
	structType reflect.Type
	fields     []Field
}

// Field is one field of a Table.
type Field struct {
	Name    string
	Kind    string // the tag kind
	Opening byte   // '[' or '{': the field takes only an array or an object; 0: it takes other values, too

	index    int
	isOwn    bool   // the caller of Object reads it
	isList   bool   // an array of structs
	inner    *Table // of the struct that the field points to; nil: it points to none
	rules    bool   // the validator must check it
	maxChars int    // the only rule is this maximum length; 0: there are other rules, or none
	maxItems int    // of an array of strings; 0: unlimited
}

// maxOwn is how many own fields a table may have.
const maxOwn = 4

// TableOf returns the table of a struct type. The fields called own are left to the caller of Object: at most four, and all that are lists
// of structs.
func TableOf[T any](own ...string) *Table {
	s := tableOf(reflect.TypeFor[T]())
	if len(own) > maxOwn {
		panic("too many own fields") // at start
	}
	for _, name := range own {
		s.Field(name).isOwn = true
	}
	return s
}

func tableOf(structType reflect.Type) *Table {
	s := &Table{structType: structType}
	for i := range structType.NumField() {
		tag := structType.Field(i).Tag
		t := structType.Field(i).Type
		f := Field{Name: tag.Get("json"), index: i, Kind: tag.Get("kind"), Opening: openingOf(t, tag.Get("kind"))}
		if f.Name == "" {
			continue
		}
		f.isList = t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
		f.maxItems, _ = strconv.Atoi(tag.Get("max"))
		rules := tag.Get("validate")
		if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && rules != "-" {
			f.inner, f.rules = tableOf(t.Elem()), true
		}
		if limit, ok := strings.CutPrefix(rules, "max="); ok && t.Kind() == reflect.String {
			f.maxChars, _ = strconv.Atoi(limit)
		} else {
			f.rules = f.rules || rules != "" && rules != "-"
		}
		s.fields = append(s.fields, f)
		s.Names = append(s.Names, f.Name)
	}
	return s
}

// openingOf returns the first byte of each value of a field, or 0 if they differ.
func openingOf(t reflect.Type, kind string) byte {
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && kind != "list":
		return '['
	case kind == "object", kind == "schemas", t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return '{'
	}
	return 0
}

// Field returns the field with a name, or nil.
func (s *Table) Field(name string) *Field {
	i := slices.IndexFunc(s.fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &s.fields[i]
}
