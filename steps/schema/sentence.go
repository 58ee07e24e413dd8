package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/onecall-mcp/onecall/fault"
)

// sentence says what is wrong, without the position, in about maxSentence bytes.
func (r *report) sentence(v *violation) string {
	return fault.Clip(r.wording(v), maxSentence)
}

func (r *report) wording(v *violation) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return "got " + k.Got + ", want " + strings.Join(k.Want, " or ") + r.insteadOfText(v, k.Want)
	case *kind.Enum:
		return r.showGot(k.Got) + "want " + joinValues(k.Want)
	case *kind.Const:
		return r.showGot(k.Got) + "want " + show(k.Want)
	case *kind.Required:
		return "missing " + quoteNames(k.Missing)
	case *kind.Dependency:
		return fault.Quote(k.Prop) + " needs " + quoteNames(k.Missing) + " too"
	case *kind.DependentRequired:
		return fault.Quote(k.Prop) + " needs " + quoteNames(k.Missing) + " too"
	case *kind.AdditionalProperties:
		return "unknown argument " + quoteNames(slices.Sorted(slices.Values(k.Properties)))
	case *kind.PropertyNames:
		return "the key " + fault.Quote(k.Property) + " is not allowed"
	case *kind.FalseSchema, *kind.Not:
		return "is not allowed"
	case *kind.AnyOf:
		return r.noAlternative(v)
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			return fmt.Sprintf("matches the alternatives %d and %d, but must match only one", k.Subschemas[0]+1, k.Subschemas[1]+1)
		}
		return r.noAlternative(v)
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		return r.describeFirst(v)
	}
	return boundMessage(v.ErrorKind)
}

// boundMessage says which bound of a size, a number or a text is exceeded.
func boundMessage(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d elements, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d elements, want at most %d", k.Got, k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d elements too many", k.Count)
	case *kind.MinProperties:
		return fmt.Sprintf("has %d keys, want at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d keys, want at most %d", k.Got, k.Want)
	case *kind.Minimum:
		return "want at least " + formatBound(k.Want)
	case *kind.Maximum:
		return "want at most " + formatBound(k.Want)
	case *kind.ExclusiveMinimum:
		return "want more than " + formatBound(k.Want)
	case *kind.ExclusiveMaximum:
		return "want less than " + formatBound(k.Want)
	case *kind.MultipleOf:
		return "want a multiple of " + formatBound(k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + shorten(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("the elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "no element matches the schema of contains"
	case *kind.MinContains:
		return fmt.Sprintf("%d elements match the schema of contains, want at least %d", len(k.Got), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("%d elements match the schema of contains, want at most %d", len(k.Got), k.Want)
	}
	return "does not match the schema"
}

// maxNested bounds how deep choices within choices are described.
const maxNested = 2

// noAlternative says why no alternative matches: it names only the types if nothing else is wrong, else the mistake in each alternative.
func (r *report) noAlternative(v *violation) string {
	if r.choiceDepth == maxNested {
		return fmt.Sprintf("matches none of %d alternatives", len(v.Causes))
	}
	r.choiceDepth++
	defer func() { r.choiceDepth-- }()
	var want, reasons []string
	got := ""
	for i, alternative := range v.Causes {
		if k, ok := alternative.ErrorKind.(*kind.Type); ok && len(alternative.InstanceLocation) == len(v.InstanceLocation) {
			got, want = k.Got, append(want, k.Want...)
		}
		if i < maxAlternatives {
			reasons = append(reasons, fmt.Sprintf("(%d) %s", i+1, r.describeAlternative(v, alternative)))
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if len(want) > 0 && r.typesOnly(v) {
		return "got " + got + ", want " + strings.Join(want, " or ") + r.insteadOfText(v, want)
	}
	if undescribed := len(v.Causes) - len(reasons); undescribed > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more", undescribed))
	}
	return fmt.Sprintf("matches none of %d alternatives: %s", len(v.Causes), strings.Join(reasons, "; "))
}

// insteadOfText is the remedy for a text in place of an array or an object: some hosts and models send JSON as a text, and some functions
// return it so. "": there is none.
func (r *report) insteadOfText(v *violation, want []string) string {
	text, isText := valueAt(r.value, v.InstanceLocation).(string)
	relation, types := r.unknowns.relate(v.InstanceLocation)
	if relation == atUnknown {
		text, isText = "", types == typeString
	}
	for kind, opening := range map[string]string{"array": "[", "object": "{"} {
		switch {
		case !isText || !slices.Contains(want, kind):
		case relation == atUnknown && len(want) == 1:
			return ": if the text holds one, make it with fromJSON in an expression"
		case strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), opening) && json.Valid([]byte(text)):
			return ", and the text holds one: send the " + kind + " itself; for a result, use fromJSON in an expression"
		}
	}
	return ""
}

func (r *report) typesOnly(v *violation) bool {
	return !slices.ContainsFunc(v.Causes, func(alternative *violation) bool {
		_, ok := alternative.ErrorKind.(*kind.Type)
		return !ok || len(alternative.InstanceLocation) != len(v.InstanceLocation)
	})
}

// describeAlternative says why a value does not match an alternative, with the position relative to the choice.
func (r *report) describeAlternative(choice, alternative *violation) string {
	v := r.leaf(alternative)
	position := pointer(v.InstanceLocation[min(len(choice.InstanceLocation), len(v.InstanceLocation)):])
	if position != "" {
		position = shorten(position) + ": "
	}
	return position + r.sentence(v)
}

// describeFirst describes the first violation below v.
func (r *report) describeFirst(v *violation) string {
	if leaf := r.leaf(v); leaf != v {
		return r.sentence(leaf)
	}
	return "does not match the schema"
}

// leaf returns v, or, if v only groups other violations, the first certain violation below it. The order is stable.
func (r *report) leaf(v *violation) *violation {
	switch v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
	default:
		return v
	}
	if cached := r.leaves[v]; cached != nil {
		return cached
	}
	var best *violation
	for _, cause := range v.Causes {
		if !r.isCertain(cause) {
			continue
		}
		if cause = r.leaf(cause); best == nil || cause.SchemaURL < best.SchemaURL {
			best = cause
		}
	}
	if best == nil {
		best = v
	}
	r.leaves[v] = best
	return best
}

// showGot shows a wrong value, unless the function's arguments may be secret.
func (r *report) showGot(value any) string {
	if r.secret {
		return ""
	}
	return "got " + show(value) + ", "
}

// show formats a value for a message, shortened.
func show(value any) string {
	if text, ok := value.(string); ok {
		return fault.Quote(text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "…"
	}
	return shorten(string(text))
}

func joinValues(values []any) string {
	var shown []string
	for i, value := range values {
		if i == maxValues {
			shown = append(shown, fmt.Sprintf("… (%d in all)", len(values)))
			break
		}
		shown = append(shown, show(value))
	}
	return strings.Join(shown, " or ")
}

func quoteNames(names []string) string {
	var shown []string
	for i, name := range names {
		if i == maxValues {
			shown = append(shown, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		shown = append(shown, fault.Quote(name))
	}
	return strings.Join(shown, ", ")
}

// formatBound formats a bound of the schema.
func formatBound(r *big.Rat) string {
	if r.IsInt() {
		return shorten(r.RatString())
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}

// maxShown bounds, in characters, how much of a value a message shows: a longer value may be a secret or a document.
const maxShown = 60

// shorten cuts a text for a message, between characters.
func shorten(text string) string { return fault.ClipRunes(text, maxShown+1) }
