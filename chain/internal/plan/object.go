package plan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Member is a member of a raw object.
type Member struct{ Name, Raw string }

// Members lists the members of a raw object. Duplicate keys have already been refused.
func Members(object []byte) []Member {
	var list []Member
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		list = append(list, Member{strings.Clone(key.String()), value.Raw})
		return true
	})
	return list
}

// WithoutNulls copies an object without the named members that are null.
func WithoutNulls(object []byte, names []string) []byte {
	out := []byte{'{'}
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		if value.Type == gjson.Null && slices.Contains(names, key.Str) {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key.Raw...), ':'), value.Raw...)
		return true
	})
	return append(out, '}')
}

// hasKey reports whether a raw object has a member with this name.
func hasKey(object []byte, name string) bool {
	return hasMember(object, func(key string) bool { return key == name })
}

// hasMember reports whether a raw object has a member whose name satisfies a condition.
func hasMember(object []byte, satisfies func(name string) bool) (ok bool) {
	if len(object) == 0 || !bytes.Contains(object, []byte(":")) {
		return false
	}
	gjson.ParseBytes(object).ForEach(func(key, _ gjson.Result) bool {
		ok = satisfies(key.String())
		return !ok
	})
	return ok
}

// Table is an object whose members keep their order and are found by name.
type Table struct {
	List  []Member
	index map[string]int
}

// NewTable returns the table of a raw object.
func NewTable(object []byte) *Table {
	t := &Table{List: Members(object), index: map[string]int{}}
	for i, m := range t.List {
		t.index[m.Name] = i
	}
	return t
}

// Has reports whether there is a member of this name.
func (t *Table) Has(name string) bool {
	_, ok := t.index[name]
	return ok
}

// Get returns a member's raw value, or "" if there is none.
func (t *Table) Get(name string) string {
	if i, ok := t.index[name]; ok {
		return t.List[i].Raw
	}
	return ""
}

// Set sets a member to a raw value. A new member comes last.
func (t *Table) Set(name, raw string) {
	if i, ok := t.index[name]; ok {
		t.List[i].Raw = raw
		return
	}
	t.index[name] = len(t.List)
	t.List = append(t.List, Member{name, raw})
}

// Remove removes a member, if there is one.
func (t *Table) Remove(name string) {
	i, ok := t.index[name]
	if !ok {
		return
	}
	t.List = slices.Delete(t.List, i, i+1)
	t.index = map[string]int{}
	for i, m := range t.List {
		t.index[m.Name] = i
	}
}

// Names returns the names of the members, in order.
func (t *Table) Names() []string {
	names := make([]string, len(t.List))
	for i := range t.List {
		names[i] = t.List[i].Name
	}
	return names
}

// AppendObject appends members as a JSON object.
func AppendObject(dst []byte, list []Member) []byte {
	dst = append(dst, '{')
	for i, m := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(rawjson.AppendQuote(dst, m.Name), ':')
		dst = append(dst, m.Raw...)
	}
	return append(dst, '}')
}
