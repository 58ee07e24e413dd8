package openapi

import (
	"maps"
	"slices"
)

// flatObject is an object schema split into members that can be arguments.
type flatObject struct {
	members  []*property
	byName   map[string]*property
	required map[string]bool
	branches map[branch]*branchInfo // schemas whose members were added, so that each is read once
	lost     bool                   // dropped alternatives said which members go together
}

// branch is a schema that is merged, possibly as one of several alternatives.
type branch struct {
	schema      value
	alternative bool
}

// branchInfo says whether a merged schema is an object, and which names it requires.
type branchInfo struct {
	isObject bool
	required map[string]bool
}

// property is a member with its schemas: it must match every schema of all, and at least one of any.
type property struct {
	name     string
	all, any []value
}

// maxAlternatives bounds the branches of a body that are merged into one list of arguments.
const maxAlternatives = 40

func (f *flatObject) property(name string) *property {
	if p := f.byName[name]; p != nil {
		return p
	}
	p := &property{name: name}
	f.byName[name] = p
	f.members = append(f.members, p)
	return p
}

// flatten splits an object into its properties, those of allOf, and those of every alternative of oneOf and anyOf. It returns false
// if the schema is not an object or allows members of any name, or if an alternative does.
func (l *loader) flatten(schema value) (*flatObject, bool) {
	f := &flatObject{byName: map[string]*property{}, required: map[string]bool{}, branches: map[branch]*branchInfo{}}
	isObject, ok := l.collect(f, schema, map[value]bool{}, false)
	return f, ok && (isObject || len(f.members) > 0)
}

// collect adds the members of a schema, possibly as one of several alternatives. isObject reports whether the schema itself says
// that it is an object; ok is as in flatten. above holds the schemas that are being collected: one that contains itself adds nothing more.
func (l *loader) collect(f *flatObject, schema value, above map[value]bool, alternative bool) (isObject, ok bool) {
	l.countWork(1)
	schema, err := l.resolve(schema)
	if err != nil || above[schema] {
		return false, err == nil
	}
	if merged := f.branches[branch{schema, alternative}]; merged != nil {
		maps.Copy(f.required, merged.required)
		return merged.isObject, true
	}
	above[schema] = true
	outer := f.required
	f.required = map[string]bool{}
	defer func() {
		delete(above, schema)
		if ok {
			f.branches[branch{schema, alternative}] = &branchInfo{isObject, f.required}
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
	isObject, ok = objectType(schema.get("type"))
	if !ok {
		return false, false
	}
	for name, property := range schema.get("properties").members() {
		l.countWork(1)
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
	for _, member := range schema.get("allOf").elements() {
		branchIsObject, ok := l.collect(f, member, above, alternative)
		if !ok {
			return false, false
		}
		isObject = isObject || branchIsObject
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		branchIsObject, ok := l.alternatives(f, schema.get(keyword), above)
		if !ok {
			return false, false
		}
		isObject = isObject || branchIsObject
	}
	return isObject, true
}

// objectType reports whether a type names object, and whether it allows objects at all.
func objectType(declared value) (isObject, ok bool) {
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

// alternatives merges the branches of a oneOf or anyOf. A name is required if all of them require it.
// ok is false if one of them cannot be merged, or if there are more than maxAlternatives.
func (l *loader) alternatives(f *flatObject, branches value, above map[value]bool) (isObject, ok bool) {
	var inAll map[string]bool
	count := 0
	for _, element := range branches.elements() {
		if count++; count > maxAlternatives {
			return false, false
		}
		required := f.required
		f.required = map[string]bool{}
		before := len(f.members)
		branchIsObject, ok := l.collect(f, element, above, true)
		if !ok {
			return false, false
		}
		isObject = isObject || branchIsObject
		// An alternative that is no object by itself and adds no member can only say which members go together.
		f.lost = f.lost || !branchIsObject && len(f.members) == before
		if inAll == nil {
			inAll = f.required
		}
		for name := range inAll {
			if !f.required[name] {
				delete(inAll, name)
			}
		}
		f.required = required
	}
	for name := range inAll {
		f.required[name] = true
	}
	return isObject, true
}

// closed reports whether an object may have only its declared members.
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

// property writes a property's schema as the schema of an argument.
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

func (e *emitter) several(keyword string, list []value, preceded bool) bool {
	if len(list) == 0 {
		return preceded
	}
	e.beginKeyword(keyword, preceded)
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
