package schema

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Element is one element of a path into a result.
type Element struct {
	Key      string // an object's key; digits may also index an array
	Index    bool   // Key can only index an array; it may be negative, from the end, or "*" for any one element
	Each     bool   // every element of an array; Key is empty
	Optional bool   // a missing value is null
}

// kindByte distinguishes elements with equal keys. No key contains such a byte, because no byte from 0xF8 on occurs in UTF-8.
func (e Element) kindByte() byte {
	kind := byte(0xF8)
	for i, is := range []bool{e.Index, e.Each, e.Optional} {
		if is {
			kind |= 1 << i
		}
	}
	return kind
}

// typesAt is Paths.TypesAt for a schema that is not empty.
func typesAt(name string, schema []byte, path []Element) (types []string, f *fault.Error) {
	p := pathWalker{walker: newWalker(schema), path: path, visited: map[visitKey]typeSet{}, deepest: -1}
	set := p.walk(p.root, 0)
	if set == 0 {
		return nil, p.missingFault(name, "has")
	}
	return set.names(), nil
}

// visitKey identifies a schema, by its position in the text, and the position in the path that it is applied to.
type visitKey struct{ schema, position int }

// pathWalker finds the types that a schema allows at the end of a path.
type pathWalker struct {
	walker
	path    []Element
	visited map[visitKey]typeSet

	deepest   int // position in path of the deepest fault; -1: none
	available []string
	scalar    typeSet // the types at deepest if the value there has neither keys nor elements
}

// walk returns the types that a value may have at path[position:] below a schema.
func (p *pathWalker) walk(schema gjson.Result, position int) typeSet {
	target := p.resolve(schema)
	switch {
	case target.Type == gjson.False:
		return noType
	case !target.IsObject():
		return anyType
	}
	s := visitKey{target.Index, position}
	types, known := p.visited[s]
	if !known {
		p.visited[s] = anyType // lets a schema refer to itself
		types = p.ownTypes(target, position) & p.branchTypes(target, position)
		p.visited[s] = types
	}
	if position == len(p.path) && (isNullable(schema) || isNullable(target)) {
		types |= typeNull
	}
	return types
}

// branchTypes returns the types that allOf, anyOf and oneOf allow.
func (p *pathWalker) branchTypes(schema gjson.Result, position int) typeSet {
	types := anyType
	for _, branch := range each(child(schema, "allOf")) {
		types &= p.walk(branch, position)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		union, hasBranches := noType, false
		for _, branch := range each(child(schema, keyword)) {
			union |= p.walk(branch, position)
			hasBranches = true
		}
		if hasBranches {
			types &= union
		}
	}
	return types
}

// ownTypes returns the types that a schema's own keywords allow, without its branches.
func (p *pathWalker) ownTypes(schema gjson.Result, position int) typeSet {
	types := localTypes(schema)
	if position == len(p.path) {
		return types
	}
	element := p.path[position]
	reachable := noType
	if types&typeObject != 0 && !element.Index && !element.Each {
		reachable |= p.memberTypes(schema, element.Key, position)
	}
	if types&typeArray != 0 {
		reachable |= p.elementTypes(schema, element, position)
	}
	if element.Optional {
		reachable |= typeNull
	}
	if reachable == noType && p.deepest < position {
		if types&element.container() != 0 {
			types = noType // it has members or elements, but not this one
		}
		p.fail(position, nil, types)
	}
	return reachable
}

// container returns the types of values that can have the element.
func (e Element) container() typeSet {
	switch _, err := strconv.Atoi(e.Key); {
	case e.Index, e.Each:
		return typeArray
	case err == nil:
		return typeObject | typeArray
	}
	return typeObject
}

// memberTypes returns the types below an object's key.
func (p *pathWalker) memberTypes(schema gjson.Result, key string, position int) typeSet {
	properties := child(schema, "properties")
	if property := child(properties, key); property.Exists() {
		return p.walk(property, position+1)
	}
	types, matched := anyType, false
	for pattern, property := range each(child(schema, "patternProperties")) {
		expression, err := compileRegexp(pattern.Str)
		switch {
		case err != nil:
			matched = true // it may match
		case expression.MatchString(key):
			matched = true
			types &= p.walk(property, position+1)
		}
	}
	if matched {
		return types
	}
	additional := child(schema, "additionalProperties")
	if additional.Type == gjson.False {
		var names []string
		for name := range each(properties) {
			names = append(names, name.Str)
		}
		p.fail(position, names, noType)
		return noType
	}
	return p.walk(additional, position+1)
}

// elementTypes returns the types below an array's element, or below every element.
func (p *pathWalker) elementTypes(schema gjson.Result, element Element, position int) typeSet {
	first, rest := child(schema, "prefixItems"), child(schema, "items")
	if rest.IsArray() { // an array of schemas, as before 2020-12
		first, rest = rest, child(schema, "additionalItems")
	}
	index, err := strconv.Atoi(element.Key)
	switch {
	case element.Each, element.Index && element.Key == "*", err == nil && index < 0:
		// It may be any element.
		types := p.walk(rest, position+1)
		for _, item := range each(first) {
			types |= p.walk(item, position+1)
		}
		if element.Each && types != noType {
			return typeArray
		}
		return types
	case err != nil:
		return noType
	}
	if item := child(first, element.Key); item.Exists() {
		return p.walk(item, position+1)
	}
	if rest.Type == gjson.False {
		p.fail(position, nil, noType)
	}
	return p.walk(rest, position+1)
}

// fail records the deepest position at which a walk ended. It replaces a record that has neither keys nor types.
func (p *pathWalker) fail(position int, available []string, scalar typeSet) {
	if position > p.deepest || p.available == nil && p.scalar == noType {
		p.deepest, p.available, p.scalar = position, available, scalar
	} else if position == p.deepest {
		p.available = append(p.available, available...)
	}
}

// missingFault returns the fault for a path that ends at p.deepest. verb is "has" or "declares".
func (p *pathWalker) missingFault(name, verb string) *fault.Error {
	var before strings.Builder
	p.deepest = max(p.deepest, 0)
	for _, element := range p.path[:p.deepest] {
		before.WriteString(element.String())
	}
	location := "its result"
	if p.deepest > 0 {
		location = shorten(strings.TrimPrefix(before.String(), ".")) + " in its result"
	}
	if len(p.path) == 0 {
		return fault.New(fault.ReferenceMissing, "%s never gives a result", name)
	}
	wanted := p.path[p.deepest]
	f := fault.New(fault.ReferenceMissing, "%s: no %s: %s", name, wanted.describe(), location)
	switch {
	case p.scalar != noType:
		f.Message += " is " + strings.Join(p.scalar.names(), " or ")
	case len(p.available) > 0:
		f.Available = p.available[:min(len(p.available), maxListed)]
		f.Nearest = fault.Nearest(wanted.Key, p.available, maxNearest)
		f.Message += " " + verb + " " + strings.Join(f.Available, ", ")
	default:
		f.Message += " does not have it"
	}
	return f
}

// String formats the element as in a reference.
func (e Element) String() string {
	switch {
	case e.Each:
		return "[*]"
	case e.Index:
		return "[" + e.Key + "]"
	}
	return "." + e.Key
}

// describe names the element in a message.
func (e Element) describe() string {
	if e.Each || e.Index {
		return "element " + e.String()
	}
	return "member " + fault.Quote(e.Key)
}
