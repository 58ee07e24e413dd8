package schema

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxBranches bounds the schemas of one position that undeclared visits together.
const maxBranches = 64

// undeclared follows a path through all schemas that may apply at each position, up to one that declares nothing.
func undeclared(name string, schema []byte, path []Element) *fault.Error {
	w := newWalker(schema)
	here := []gjson.Result{w.root}
	for i, element := range path {
		var ok bool
		if here, ok = w.applicable(here); !ok {
			return nil
		}
		next, names := elementSchemas(here, element)
		switch {
		case len(next) > 0:
			here = next
		case len(names) == 0 || len(fault.Nearest(element.Key, names, maxNearest)) == 0:
			return nil
		default:
			return (&producer{path: path, deepest: i, available: names}).missing(name, "declares")
		}
	}
	return nil
}

// applicable returns schemas with the branches of their allOf, anyOf and oneOf; false if there are too many.
func (w *walker) applicable(schemas []gjson.Result) (all []gjson.Result, ok bool) {
	for i := 0; i < len(schemas); i++ {
		if len(schemas) > maxBranches {
			return nil, false
		}
		target := w.resolve(schemas[i])
		if !target.IsObject() || slices.ContainsFunc(all, func(known gjson.Result) bool { return known.Index == target.Index }) {
			continue
		}
		all = append(all, target)
		for _, keyword := range []string{"if", "dependentSchemas", "dependencies"} {
			if child(target, keyword).Exists() { // which may declare more
				return nil, false
			}
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			schemas = append(schemas, elements(child(target, keyword))...)
		}
	}
	return all, true
}

// elementSchemas returns the schemas of an element of a value that has some of these schemas, and the member names that
// they declare; nil if other schemas apply.
func elementSchemas(schemas []gjson.Result, element Element) (next []gjson.Result, names []string) {
	isOpen := false
	for _, schema := range schemas {
		if element.container()&typeArray != 0 {
			if items := child(schema, "items"); items.IsObject() {
				next = append(next, items)
			}
		}
		if element.Index || element.Each {
			continue
		}
		properties := child(schema, "properties")
		if property := child(properties, element.Key); property.Exists() {
			next = append(next, property)
		}
		for name := range each(properties) {
			names = append(names, name.Str)
		}
		additional := child(schema, "additionalProperties")
		isOpen = isOpen || additional.Type == gjson.True || additional.IsObject() || child(schema, "patternProperties").Exists()
	}
	if isOpen {
		return next, nil
	}
	return next, names
}
