package rawjson

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Member is a member of an object, with its value as written.
type Member struct{ Name, Raw string }

// ListMembers lists the members of an object that has no key twice.
func ListMembers(object []byte) []Member {
	var list []Member
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		list = append(list, Member{strings.Clone(key.String()), value.Raw})
		return true
	})
	return list
}

// HasMember reports whether an object has a member whose name satisfies a condition.
func HasMember(object []byte, satisfies func(name string) bool) (ok bool) {
	if len(object) == 0 || !bytes.Contains(object, []byte(":")) {
		return false
	}
	gjson.ParseBytes(object).ForEach(func(key, _ gjson.Result) bool {
		ok = satisfies(key.String())
		return !ok
	})
	return ok
}

// AppendObject appends members as an object.
func AppendObject(dst []byte, list []Member) []byte {
	dst = append(dst, '{')
	for i, m := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendQuote(dst, m.Name), ':')
		dst = append(dst, m.Raw...)
	}
	return append(dst, '}')
}

// Table is an object whose members keep their order and are found by name.
type Table struct {
	List  []Member
	index map[string]int
}

// NewTable returns the table of a raw object.
func NewTable(object []byte) *Table {
	t := &Table{List: ListMembers(object), index: map[string]int{}}
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
