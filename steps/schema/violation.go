package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of what is told of a violation, and of the violations that are looked at in full: several may be told as one.
const maxFaults, maxKept, maxValues, maxAlternatives, maxSentence = 20, 500, 10, 4, 500

// maxListed bounds the names that a fault lists, maxNearest those that are told as similar, maxCompared those that are compared.
const maxListed, maxNearest, maxCompared = 20, 3, 100

// report turns the validator's tree of violations into faults.
type report struct {
	schema []byte // as it came
	secret bool   // values must not be shown
	value  any
	open   bool // there are holes
	holes  *holeTree

	found  []*violation // what is to be told, the first maxKept by place or a few more
	total  int          // of what is to be told
	known  map[*violation]bool
	leaves map[*violation]*violation
	choice int // of how many choices the alternatives are being told

	doc any // the schema as it was compiled; nil before it is needed
}

type violation = jsonschema.ValidationError

func newReport(schema []byte, secret bool, holes []hole) *report {
	return &report{schema: schema, secret: secret, open: len(holes) > 0, holes: newHoleTree(holes),
		known: map[*violation]bool{}, leaves: map[*violation]*violation{}}
}

// undecoded is the fault for a value that is not fit to be validated.
func (r *report) undecoded(f *fault.Error) *fault.Error {
	if f.At != "" {
		f.Message = shorten(f.At) + ": " + f.Message
	}
	return f
}

// faults are the violations that hold whatever the holes are, sorted by place.
func (r *report) faults(tree *violation) []*fault.Error {
	r.collect(tree)
	slices.SortFunc(r.found, compareViolations)
	var faults []*fault.Error
	type text struct{ at, message string }
	seen := map[text]bool{}
	told := 0
	for _, v := range r.found {
		if len(faults) == maxFaults {
			break
		}
		described, mistakes := r.describe(v, maxFaults-len(faults))
		told += mistakes
		for _, f := range described {
			// One mistake may break several schemas.
			if t := (text{f.At, f.Message}); !seen[t] {
				seen[t] = true
				faults = append(faults, f)
			}
		}
	}
	if more := r.total - told; more > 0 {
		faults[len(faults)-1].Message += fmt.Sprintf(" (and %d more)", more)
	}
	return faults
}

// keep notes a violation that is to be told, if it is among the first.
func (r *report) keep(v *violation) {
	r.total += mistakes(v)
	if r.found = append(r.found, v); len(r.found) == 2*maxKept {
		slices.SortFunc(r.found, compareViolations)
		r.found = r.found[:maxKept]
	}
}

// mistakes counts what a violation may be told as.
func mistakes(v *violation) int {
	if k, ok := v.ErrorKind.(*kind.AdditionalProperties); ok {
		return len(k.Properties)
	}
	return 1
}

func compareViolations(a, b *violation) int {
	return cmp.Or(slices.CompareFunc(a.InstanceLocation, b.InstanceLocation, compareTokens), cmp.Compare(a.SchemaURL, b.SchemaURL),
		slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()))
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
func (r *report) collect(v *violation) {
	switch v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		if r.conditional(v) {
			return
		}
		for _, cause := range v.Causes {
			r.collect(cause)
		}
		return
	}
	if r.certain(v) {
		r.keep(v)
	}
}

// certain reports whether no value of the holes could avoid the violation.
func (r *report) certain(v *violation) bool {
	if len(v.Causes) == 0 {
		return r.judge(v)
	}
	certain, known := r.known[v]
	if !known {
		certain = r.judge(v)
		r.known[v] = certain
	}
	return certain
}

func (r *report) judge(v *violation) bool {
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
	relation, types := r.holes.relate(v.InstanceLocation)
	switch relation {
	case atHole:
		return certainAt(v.ErrorKind, types)
	case above:
		return structural(v.ErrorKind)
	}
	return true
}

// allCertain reports whether every alternative is certainly excluded.
func (r *report) allCertain(alternatives []*violation) bool {
	return len(alternatives) > 0 && !slices.ContainsFunc(alternatives, func(v *violation) bool { return !r.certain(v) })
}

// conditional reports whether the schema that is violated applies only because of other values, some of which are not
// known. The validator does not say where those stand.
func (r *report) conditional(v *violation) bool {
	if !r.open {
		return false
	}
	for _, keyword := range []string{"/then", "/else", "/unevaluatedProperties", "/unevaluatedItems"} {
		if strings.Contains(v.SchemaURL, keyword) {
			return true
		}
	}
	return false
}

// certainAt reports whether a hole of some types can never satisfy a schema.
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

// structural reports whether a violation depends on the keys and the number of elements only, never on values below.
func structural(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Type, *kind.FalseSchema, *kind.Required, *kind.AdditionalProperties, *kind.AdditionalItems, *kind.Dependency,
		*kind.DependentRequired, *kind.MinProperties, *kind.MaxProperties, *kind.MinItems, *kind.MaxItems:
		return true
	}
	return false
}
