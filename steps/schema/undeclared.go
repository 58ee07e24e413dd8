package schema

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxBranches bounds the schemas of one position that undeclaredWarning visits together.
const maxBranches = 64

// undeclaredWarning follows a path through all schemas that may apply at each position. It returns the warning of Paths.Undeclared for the
// first member that no schema declares; nil if there is none, if no declared name resembles it, or if other members may be declared
// elsewhere.
func undeclaredWarning(name string, schema []byte, path []Element) *fault.Error {
	w := newWalker(schema)
	schemas := []gjson.Result{w.root}
	for i, element := range path {
		var ok bool
		if schemas, ok = w.applicable(schemas); !ok {
			return nil
		}
		next, names := elementSchemas(schemas, element)
		switch {
		case len(next) > 0:
			schemas = next
		case len(names) == 0 || len(fault.Nearest(element.Key, names, maxNearest)) == 0:
			return nil
		default:
			return (&pathWalker{path: path, deepest: i, available: names}).missingFault(name, "declares")
		}
	}
	return nil
}

// applicable returns the schemas with the branches of their allOf, anyOf and oneOf; !ok if there are too many, or if conditions may declare
// more members.
func (w *walker) applicable(schemas []gjson.Result) (all []gjson.Result, ok bool) {
	for i := 0; i < len(schemas); i++ {
		if len(schemas) > maxBranches {
			return nil, false
		}
		target := w.resolve(schemas[i])
		if !target.IsObject() || slices.ContainsFunc(all, func(seen gjson.Result) bool { return seen.Index == target.Index }) {
			continue
		}
		all = append(all, target)
		for _, keyword := range []string{"if", "dependentSchemas", "dependencies"} {
			if child(target, keyword).Exists() { // may declare more members
				return nil, false
			}
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			schemas = append(schemas, elements(child(target, keyword))...)
		}
	}
	return all, true
}

// elementSchemas returns the schemas that apply to one element of a value, given the schemas that apply to the value. names are the member
// names that these declare; nil if other members may have schemas too.
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
