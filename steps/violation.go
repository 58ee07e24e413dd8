package steps

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of what is told of a violation.
const maxFaults, maxValues, maxAlternatives = 20, 10, 4

// report turns the validator's tree of violations into faults.
type report struct {
	schema []byte // as it came
	secret bool   // values must not be shown
	value  any
	holes  []hole

	doc any // the schema as it was compiled; nil before it is needed
}

type violation = jsonschema.ValidationError

// faults are the violations that hold whatever the holes are, sorted by place.
func (r *report) faults(tree *violation) []*fault.Error {
	found := r.collect(nil, tree)
	slices.SortFunc(found, func(a, b *violation) int {
		return cmp.Or(slices.CompareFunc(a.InstanceLocation, b.InstanceLocation, compareTokens), cmp.Compare(a.SchemaURL, b.SchemaURL),
			slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()))
	})
	var faults []*fault.Error
	for i, v := range found {
		if len(faults) >= maxFaults {
			faults = faults[:maxFaults]
			faults[maxFaults-1].Message += fmt.Sprintf(" (and %d more)", len(found)-i)
			break
		}
		for _, f := range r.describe(v) {
			// One mistake may break several schemas.
			same := func(other *fault.Error) bool { return other.At == f.At && other.Message == f.Message }
			if !slices.ContainsFunc(faults, same) {
				faults = append(faults, f)
			}
		}
	}
	return faults
}

// compareTokens compares parts of places: array indexes by their number.
func compareTokens(a, b string) int {
	if isIndex(a) && isIndex(b) {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

func isIndex(token string) bool { return token != "" && strings.Trim(token, "0123456789") == "" }

// collect gathers the violations that are to be told: those that cannot be put down to one below them.
func (r *report) collect(found []*violation, v *violation) []*violation {
	switch v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		if r.conditional(v) {
			return found
		}
		for _, cause := range v.Causes {
			found = r.collect(found, cause)
		}
		return found
	}
	if r.certain(v) {
		found = append(found, v)
	}
	return found
}

// certain tells whether no value of the holes could avoid the violation.
func (r *report) certain(v *violation) bool {
	if r.conditional(v) {
		return false
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		return slices.ContainsFunc(v.Causes, r.certain)
	case *kind.AnyOf:
		return r.allCertain(v.Causes)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return r.allCertain(v.Causes)
		}
	case *kind.RefCycle, *kind.InvalidJsonValue:
		return false // a defect of the schema
	case *kind.PropertyNames:
		return true // keys are never holes; the validator may name a sibling of the object as the place
	}
	relation, types := r.relate(v.InstanceLocation)
	switch relation {
	case atHole:
		return certainAt(v.ErrorKind, types)
	case above:
		return structural(v.ErrorKind)
	}
	return true
}

// allCertain tells whether every alternative is certainly excluded.
func (r *report) allCertain(alternatives []*violation) bool {
	return len(alternatives) > 0 && !slices.ContainsFunc(alternatives, func(v *violation) bool { return !r.certain(v) })
}

// conditional tells whether the schema that is violated applies only because of other values, some of which are not
// known. The validator does not say where those stand.
func (r *report) conditional(v *violation) bool {
	if len(r.holes) == 0 {
		return false
	}
	for _, keyword := range []string{"/then", "/else", "/unevaluatedProperties", "/unevaluatedItems"} {
		if strings.Contains(v.SchemaURL, keyword) {
			return true
		}
	}
	return false
}

// certainAt tells whether a hole of some types can never satisfy a schema.
func certainAt(k jsonschema.ErrorKind, types typeSet) bool {
	switch k := k.(type) {
	case *kind.FalseSchema:
		return true
	case *kind.Type:
		return types&compatible(k.Want) == 0
	case *kind.Enum:
		return types&typesOf(k.Want) == 0
	case *kind.Const:
		return types&typesOf([]any{k.Want}) == 0
	}
	return false
}

// compatible is what a value that is known by its type only must be to fit: a number may turn out to be whole.
func compatible(names []string) typeSet {
	set := typesNamed(names)
	if set&(typeInteger|typeFraction) != 0 {
		set |= typeInteger | typeFraction
	}
	return set
}

func typesOf(values []any) typeSet {
	set := noType
	for _, value := range values {
		switch value.(type) {
		case nil:
			set |= typeNull
		case bool:
			set |= typeBoolean
		case string:
			set |= typeString
		case []any:
			set |= typeArray
		case map[string]any:
			set |= typeObject
		default:
			set |= typeInteger | typeFraction
		}
	}
	return set
}

// structural tells whether a violation depends on the keys and the number of elements only, never on values below.
func structural(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Type, *kind.FalseSchema, *kind.Required, *kind.AdditionalProperties, *kind.AdditionalItems, *kind.Dependency,
		*kind.DependentRequired, *kind.MinProperties, *kind.MaxProperties, *kind.MinItems, *kind.MaxItems:
		return true
	}
	return false
}

// describe writes the faults of one violation: one for each property that is not known, else one.
func (r *report) describe(v *violation) []*fault.Error {
	place := v.InstanceLocation
	switch k := v.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		declared := r.declaredAt(v.SchemaURL)
		var faults []*fault.Error
		for _, name := range slices.Sorted(slices.Values(k.Properties)) {
			f := r.fault(append(slices.Clone(place), name), "unknown argument")
			f.Available, f.Nearest = declared, fault.Nearest(name, declared, maxNearest)
			if len(f.Nearest) > 0 {
				f.Message += fmt.Sprintf(", did you mean %s?", quote(f.Nearest[0]))
			}
			faults = append(faults, f)
		}
		return faults
	case *kind.Required:
		f := r.fault(place, "%s", r.sentence(v)+r.misspelt(v, k.Missing))
		f.Available = r.declaredAt(v.SchemaURL)
		return []*fault.Error{f}
	case *kind.Enum:
		f := r.fault(place, "%s", r.sentence(v))
		for _, value := range k.Want {
			if word, ok := value.(string); ok && len(f.Available) < maxListed {
				f.Available = append(f.Available, word)
			}
		}
		if got, ok := k.Got.(string); ok && !r.secret {
			f.Nearest = fault.Nearest(got, f.Available, 1)
		}
		return []*fault.Error{f}
	case *kind.PropertyNames:
		if object, _ := valueAt(r.value, place).(map[string]any); object == nil && len(place) > 0 {
			place = place[:len(place)-1]
		}
	}
	return []*fault.Error{r.fault(place, "%s", r.sentence(v))}
}

// fault makes a fault whose message begins with its place.
func (r *report) fault(place []string, format string, args ...any) *fault.Error {
	f := fault.New(fault.BadArguments, format, args...)
	for _, token := range place {
		f.At = fault.Key(f.At, token)
	}
	if f.At != "" {
		f.Message = shorten(f.At) + ": " + f.Message
	}
	return f
}

// misspelt names the key that was probably meant for a missing one.
func (r *report) misspelt(v *violation, missing []string) string {
	object, _ := valueAt(r.value, v.InstanceLocation).(map[string]any)
	declared := r.declaredAt(v.SchemaURL)
	var strangers []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(declared, name) {
			strangers = append(strangers, name)
		}
	}
	for _, name := range missing {
		if near := fault.Nearest(name, strangers, 1); len(near) > 0 {
			return fmt.Sprintf(" (%s is not an argument of it)", quote(near[0]))
		}
	}
	return ""
}

// declaredAt lists the properties that the violated schema declares, sorted. The schema is read again for it, as faults
// are rare.
func (r *report) declaredAt(schema string) []string {
	if r.doc == nil {
		doc, err := normalise(r.schema)
		if err != nil {
			return nil
		}
		r.doc = doc.root
	}
	_, fragment, _ := strings.Cut(schema, "#")
	violated, _ := lookup(r.doc, fragment)
	object, _ := violated.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// valueAt gives what stands at a place; nil when there is nothing.
func valueAt(value any, place []string) any {
	for _, token := range place {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			found, ok := lookup(v, "/"+token)
			if !ok {
				return nil
			}
			value = found
		default:
			return nil
		}
	}
	return value
}
