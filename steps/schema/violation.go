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

// maxFaults bounds the faults of a report, and maxViolations the violations that are examined for it: more, because several may be reported
// as one. In a message, maxValues bounds the values or names of a list, maxAlternatives the alternatives of a choice that are described,
// and maxSentence the bytes of a sentence.
const maxFaults, maxViolations, maxValues, maxAlternatives, maxSentence = 20, 500, 10, 4, 500

// maxListed bounds the names that a fault lists, maxNearest the names that it suggests, and maxCompared the names that are compared
// for a suggestion.
const maxListed, maxNearest, maxCompared = 20, 3, 100

// report turns the validator's tree of violations into faults.
type report struct {
	schema      []byte // the schema as given
	secret      bool   // do not show values
	value       any
	hasUnknowns bool // some values are unknown
	unknowns    *unknownTree

	violations  []*violation // what to report: the first maxViolations by position, or a few more
	total       int          // the number of violations to report
	certainty   map[*violation]bool
	leaves      map[*violation]*violation
	choiceDepth int // depth of choices in the current description

	doc any // the normalized schema; nil: not needed yet
}

type violation = jsonschema.ValidationError

func newReport(schema []byte, secret bool, unknowns []unknownValue) *report {
	return &report{schema: schema, secret: secret, hasUnknowns: len(unknowns) > 0, unknowns: newUnknownTree(unknowns),
		certainty: map[*violation]bool{}, leaves: map[*violation]*violation{}}
}

// decodeFault returns the fault of a value that cannot be validated.
func (r *report) decodeFault(f *fault.Error) *fault.Error {
	if f.At != "" {
		f.Message = shorten(f.At) + ": " + f.Message
	}
	return f
}

// faults returns at most maxFaults faults of the violations that occur with all values of the unknowns, sorted by position.
func (r *report) faults(tree *violation) []*fault.Error {
	r.collect(tree)
	slices.SortFunc(r.violations, compareViolations)
	var faults []*fault.Error
	type text struct{ at, message string }
	seen := map[text]bool{}
	reported := 0
	for _, v := range r.violations {
		if len(faults) == maxFaults {
			break
		}
		described, mistakes := r.describe(v, maxFaults-len(faults))
		reported += mistakes
		for _, f := range described {
			// One mistake may violate several schemas.
			if t := (text{f.At, f.Message}); !seen[t] {
				seen[t] = true
				faults = append(faults, f)
			}
		}
	}
	if unreported := r.total - reported; unreported > 0 {
		faults[len(faults)-1].Message += fmt.Sprintf(" (and %d more)", unreported)
	}
	return faults
}

// add adds a violation to report if it is among the first.
func (r *report) add(v *violation) {
	r.total += faultCount(v)
	if r.violations = append(r.violations, v); len(r.violations) == 2*maxViolations {
		slices.SortFunc(r.violations, compareViolations)
		r.violations = r.violations[:maxViolations]
	}
}

// faultCount returns the number of faults that a violation may be reported as.
func faultCount(v *violation) int {
	if k, ok := v.ErrorKind.(*kind.AdditionalProperties); ok {
		return len(k.Properties)
	}
	return 1
}

func compareViolations(a, b *violation) int {
	return cmp.Or(slices.CompareFunc(a.InstanceLocation, b.InstanceLocation, compareTokens), cmp.Compare(a.SchemaURL, b.SchemaURL),
		slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()))
}

// compareTokens compares tokens of positions: array indexes numerically.
func compareTokens(a, b string) int {
	if isIndex(a) && isIndex(b) {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

func isIndex(token string) bool { return token != "" && strings.Trim(token, "0123456789") == "" }

// collect adds the violations to report, without those that a violation below them explains.
func (r *report) collect(v *violation) {
	switch v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		if r.isConditional(v) {
			return
		}
		for _, cause := range v.Causes {
			r.collect(cause)
		}
		return
	}
	if r.isCertain(v) {
		r.add(v)
	}
}

// isCertain reports whether no choice of the unknown values could avoid the violation.
func (r *report) isCertain(v *violation) bool {
	if len(v.Causes) == 0 {
		return r.judge(v)
	}
	certain, known := r.certainty[v]
	if !known {
		certain = r.judge(v)
		r.certainty[v] = certain
	}
	return certain
}

func (r *report) judge(v *violation) bool {
	if r.isConditional(v) {
		return false
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		return slices.ContainsFunc(v.Causes, r.isCertain)
	case *kind.AnyOf:
		return r.allCertain(v.Causes)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 { // no alternative matches; if two do, the position decides below
			return r.allCertain(v.Causes)
		}
	case *kind.RefCycle, *kind.InvalidJsonValue:
		return false // a defect of the schema
	case *kind.PropertyNames:
		return true // keys are always known, and the validator may report a sibling's position
	}
	relation, types := r.unknowns.relate(v.InstanceLocation)
	switch relation {
	case atUnknown:
		return certainAt(v.ErrorKind, types)
	case above:
		return isStructural(v.ErrorKind)
	}
	return true
}

// allCertain reports whether every alternative is certainly ruled out.
func (r *report) allCertain(alternatives []*violation) bool {
	return len(alternatives) > 0 && !slices.ContainsFunc(alternatives, func(v *violation) bool { return !r.isCertain(v) })
}

// isConditional reports whether the violated schema applies only because of other values, some of which are unknown. The validator
// does not report which values.
func (r *report) isConditional(v *violation) bool {
	if !r.hasUnknowns {
		return false
	}
	for _, keyword := range []string{"/then", "/else", "/unevaluatedProperties", "/unevaluatedItems"} {
		if strings.Contains(v.SchemaURL, keyword) {
			return true
		}
	}
	return false
}

// certainAt reports whether an unknown value of these types can never match a schema.
func certainAt(k jsonschema.ErrorKind, types typeSet) bool {
	switch k := k.(type) {
	case *kind.FalseSchema:
		return true
	case *kind.Type:
		return types&compatibleTypes(k.Want) == 0
	case *kind.Enum:
		return types&typesOf(k.Want) == 0
	case *kind.Const:
		return types&typesOf([]any{k.Want}) == 0
	}
	return false
}

// compatibleTypes returns the types of values that may match one of the named types. A value that is only known to be a number may be an
// integer or not.
func compatibleTypes(names []string) typeSet {
	set := typeSetOf(names)
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

// isStructural reports whether a violation depends only on keys and the number of elements, not on values.
func isStructural(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Type, *kind.FalseSchema, *kind.Required, *kind.AdditionalProperties, *kind.AdditionalItems, *kind.Dependency,
		*kind.DependentRequired, *kind.MinProperties, *kind.MaxProperties, *kind.MinItems, *kind.MaxItems:
		return true
	}
	return false
}
