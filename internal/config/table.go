package config

import (
	"reflect"
	"strings"
)

// The tags of a field say how it is read:
//
//	yaml      its key
//	also      further keys that mean the same, as other programs write them
//	validate  the bounds of the value
//	expand    ${VAR} is expanded; its value is the kind of text (expand.go)
//	list      a list in place of the struct stands for this field
//	text      a text in place of the struct stands for this field
//	scalars   numbers and booleans are accepted as strings, as written
//	secret    the value is never shown
//	needed    the key is required; its value says what it takes, if that is not yes
//	having    the field is read only if the value is an object with one of these keys. Else another field has the key, or other programs do
//	recorded  yes: answers depend on the value, so that a recording has it (recorded.go); no: not this key of such an object
//
// The published schema is generated from them, and from two tags that nothing else reads: default, and entries (the entries of a table may
// be null).

// structTable has the tags of a struct's fields.
type structTable struct {
	fields []fieldTable
	keys   []string       // all keys, in the order of the fields
	byKey  map[string]int // index of a key's field
	list   int            // index of the field that a list in place of the struct stands for; -1: none
	text   int            // the same for a text
	having map[string]int // index of the field that an object with certain keys stands for, by its key
}

// fieldTable has the tags of one field.
type fieldTable struct {
	key, rule, expand string
	needed            string
	scalars           bool
	having            []string
}

// told says what a required key takes, for the message that it is missing; "": no more is to say.
func (f *fieldTable) told() string {
	words, isWord := strings.CutPrefix(f.rule, "oneof=")
	switch {
	case isWord:
		list := strings.Fields(words)
		return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
	case f.needed != "yes":
		return f.needed
	}
	return ""
}

// tables are the tables of all structs of a configuration. They drive the decoder, its checks, and the expansion of variables.
//
// hiddenKeys holds all keys of a configuration. If a key is true, its value may be secret, whatever its name. If it is false, its value is
// not secret, even if its name looks like it.
var tables, hiddenKeys = makeTables()

func makeTables() (map[reflect.Type]*structTable, map[string]bool) {
	m := tableMaker{map[reflect.Type]*structTable{}, map[string]bool{}}
	m.add(reflect.TypeFor[Config]())
	return m.tables, m.hidden
}

type tableMaker struct {
	tables map[reflect.Type]*structTable
	hidden map[string]bool
}

// add adds the tables of a struct and of the structs in it. It reports whether a field of t itself is a credential.
func (m *tableMaker) add(t reflect.Type) (credential bool) {
	table := &structTable{byKey: map[string]int{}, list: -1, text: -1, having: map[string]int{}}
	m.tables[t] = table
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		field := fieldTable{key: tag.Get("yaml"), rule: tag.Get("validate"), expand: tag.Get("expand"), scalars: tag.Get("scalars") != "",
			needed: tag.Get("needed"), having: strings.Fields(tag.Get("having"))}
		table.fields = append(table.fields, field)
		if tag.Get("list") != "" {
			table.list = i
		}
		if tag.Get("text") != "" {
			table.text = i
		}
		hidden := tag.Get("secret") != ""
		switch field.expand {
		case "credential":
			hidden, credential = true, true
		case "arguments", "env", "headers", "ownHeaders":
			hidden = true
		}
		if inner := structIn(t.Field(i).Type); inner != nil {
			hidden = m.add(inner) || hidden
		}
		if len(field.having) > 0 {
			table.having[field.key] = i
			continue
		}
		for _, key := range append([]string{field.key}, strings.Fields(tag.Get("also"))...) {
			table.keys = append(table.keys, key)
			table.byKey[key] = i
			m.hidden[key] = m.hidden[key] || hidden
		}
	}
	return credential
}

// structIn returns the struct that a field is, points to or lists; nil if there is none.
func structIn(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	if entry, isEntry := t.FieldByName("Config"); isEntry {
		return entry.Type
	}
	return t
}
