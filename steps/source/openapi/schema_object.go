package openapi

import (
	"maps"
	"slices"
)

// flat is an object schema taken apart into its members, so that they can be arguments.
type flat struct {
	members  []*property
	byName   map[string]*property
	required map[string]bool
	merged   map[branch]*merged // schemas whose members are in, so that each is read once
	lost     bool               // alternatives that only say which members go together are not kept
}

// branch is a schema that is merged, as one of several alternatives or not.
type branch struct {
	schema      value
	alternative bool
}

// merged is what a schema says of the whole: whether it is an object, and the names that it requires.
type merged struct {
	isObject bool
	required map[string]bool
}

// property is a member with its schemas: all of them hold, and of any one does.
type property struct {
	name     string
	all, any []value
}

// maxAlternatives bounds the branches of a body that are merged into one list of arguments.
const maxAlternatives = 40

func (f *flat) property(name string) *property {
	if p := f.byName[name]; p != nil {
		return p
	}
	p := &property{name: name}
	f.byName[name] = p
	f.members = append(f.members, p)
	return p
}

// flatten takes an object apart: its properties, those of all of allOf, and those of every alternative of oneOf and
// anyOf where each is such an object. false for what is no object, or one with members of any name.
func (l *loader) flatten(schema value) (*flat, bool) {
	f := &flat{byName: map[string]*property{}, required: map[string]bool{}, merged: map[branch]*merged{}}
	isObject, ok := l.collect(f, schema, map[value]bool{}, false)
	return f, ok && (isObject || len(f.members) > 0)
}

// collect adds the members of a schema; alternative: of one of several. isObject: the schema says so itself.
func (l *loader) collect(f *flat, schema value, above map[value]bool, alternative bool) (isObject, ok bool) {
	l.spend(1)
	schema, err := l.resolve(schema)
	if err != nil || above[schema] {
		return false, err == nil
	}
	if m := f.merged[branch{schema, alternative}]; m != nil {
		maps.Copy(f.required, m.required)
		return m.isObject, true
	}
	above[schema] = true
	outer := f.required
	f.required = map[string]bool{}
	defer func() {
		delete(above, schema)
		if ok {
			f.merged[branch{schema, alternative}] = &merged{isObject, f.required}
		}
		maps.Copy(outer, f.required)
		f.required = outer
	}()
	if !schema.isObject() {
		return false, schema.isTrue()
	}
	for _, keyword := range []string{"additionalProperties", "patternProperties", "items", "enum", "const"} {
		if member := schema.get(keyword); member.isTrue() || member.isObject() || member.kind() == '[' {
			return false, false
		}
	}
	isObject, ok = saysObject(schema.get("type"))
	if !ok {
		return false, false
	}
	for name, property := range schema.get("properties").members() {
		l.spend(1)
		isObject = true
		p := f.property(name)
		if alternative {
			if !slices.Contains(p.any, property) {
				p.any = append(p.any, property)
			}
		} else if !slices.Contains(p.all, property) {
			p.all = append(p.all, property)
		}
	}
	for _, name := range schema.get("required").elements() {
		f.required[name.text()] = true
	}
	for _, part := range schema.get("allOf").elements() {
		partIs, ok := l.collect(f, part, above, alternative)
		if !ok {
			return false, false
		}
		isObject = isObject || partIs
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		partIs, ok := l.alternatives(f, schema.get(keyword), above)
		if !ok {
			return false, false
		}
		isObject = isObject || partIs
	}
	return isObject, true
}

// saysObject reads a type: whether it names the object, and whether it allows it at all.
func saysObject(declared value) (isObject, ok bool) {
	switch declared.kind() {
	case 0:
		return false, true
	case '"':
		return declared.text() == "object", declared.text() == "object"
	}
	for _, element := range declared.elements() {
		switch element.text() {
		case "object":
			isObject = true
		case "null":
		default:
			return false, false
		}
	}
	return isObject, isObject
}

// alternatives merges the branches of a oneOf or anyOf. What all of them require is required.
func (l *loader) alternatives(f *flat, branches value, above map[value]bool) (isObject, ok bool) {
	var everywhere map[string]bool
	count := 0
	for _, element := range branches.elements() {
		if count++; count > maxAlternatives {
			return false, false
		}
		required := f.required
		f.required = map[string]bool{}
		before := len(f.members)
		branchIs, ok := l.collect(f, element, above, true)
		if !ok {
			return false, false
		}
		isObject = isObject || branchIs
		f.lost = f.lost || !branchIs && len(f.members) == before
		if everywhere == nil {
			everywhere = f.required
		}
		for name := range everywhere {
			if !f.required[name] {
				delete(everywhere, name)
			}
		}
		f.required = required
	}
	for name := range everywhere {
		f.required[name] = true
	}
	return isObject, true
}

// closed reports whether an object may have no members but those that it declares.
func (l *loader) closed(schema value) bool {
	schema, err := l.resolve(schema)
	return err == nil && schema.get("additionalProperties").kind() == 'f'
}

// readOnly reports whether a member is never sent.
func (l *loader) readOnly(property value) bool {
	if property.get("readOnly").isTrue() {
		return true
	}
	if !property.get("$ref").ok() {
		return false
	}
	target, err := l.resolve(property)
	return err == nil && target.get("readOnly").isTrue()
}

// property writes a property's schema as an argument's.
func (e *emitter) property(p *property) {
	if len(p.any) == 0 && len(p.all) == 1 {
		e.schema(p.all[0], 1, "")
		return
	}
	if len(p.all) == 0 && len(p.any) == 1 {
		e.schema(p.any[0], 1, "")
		return
	}
	e.out = append(e.out, '{')
	e.several("anyOf", p.any, e.several("allOf", p.all, false))
	e.out = append(e.out, '}')
}

func (e *emitter) several(keyword string, list []value, more bool) bool {
	if len(list) == 0 {
		return more
	}
	e.begin(keyword, more)
	e.out = append(e.out, '[')
	for i, schema := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.schema(schema, 2, "")
	}
	e.out = append(e.out, ']')
	return true
}
