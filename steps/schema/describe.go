package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/onecall-mcp/onecall/fault"
)

// describe returns the faults of one violation: one for each unknown property (at most limit); none for missing properties if the faults of
// misspelled properties already suggest them all; else one. reported is how many of the faults that faultCount counts are covered.
func (r *report) describe(v *violation, limit int) (faults []*fault.Error, reported int) {
	position := v.InstanceLocation
	var f *fault.Error
	switch k := v.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return r.unknownProperties(v, k.Properties, limit), min(len(k.Properties), limit)
	case *kind.Required:
		missing := r.withoutMisspelled(v, k.Missing)
		if len(missing) == 0 {
			return nil, 1
		}
		f = r.fault(position, "missing "+quoteNames(missing)+r.misspellingRemark(v, missing))
		f.Available = r.declaredProperties(v.SchemaURL)
	case *kind.Enum:
		f = r.fault(position, r.sentence(v))
		for _, value := range k.Want {
			if word, ok := value.(string); ok && len(f.Available) < maxListed {
				f.Available = append(f.Available, word)
			}
		}
		if got, ok := k.Got.(string); ok && !r.secret {
			f.Nearest = fault.Nearest(got, f.Available, 1)
		}
	case *kind.PropertyNames:
		// The position may end with the key itself: report the position of the object.
		if object, _ := valueAt(r.value, position).(map[string]any); object == nil && len(position) > 0 {
			position = position[:len(position)-1]
		}
		f = r.fault(position, r.sentence(v))
	default:
		f = r.fault(position, r.sentence(v))
	}
	return []*fault.Error{f}, faultCount(v)
}

// unknownProperties returns a fault for each of the first limit properties that an object must not have.
func (r *report) unknownProperties(v *violation, names []string, limit int) []*fault.Error {
	declared := r.declaredProperties(v.SchemaURL)
	names = slices.Sorted(slices.Values(names))
	var faults []*fault.Error
	for _, name := range names[:min(len(names), limit)] {
		message := "unknown argument"
		nearest := fault.Nearest(name, declared, maxNearest)
		if len(nearest) > 0 {
			message += ", did you mean " + fault.Quote(nearest[0]) + "?"
		}
		f := r.fault(append(slices.Clone(v.InstanceLocation), name), message)
		f.Available, f.Nearest, f.Err = declared, nearest, fault.ErrUnknownKey
		faults = append(faults, f)
	}
	return faults
}

// fault returns a fault whose message begins with its position.
func (r *report) fault(position []string, message string) *fault.Error {
	f := fault.New(fault.BadArguments, "%s", message)
	f.At = pointer(position)
	if f.At != "" {
		f.Message = shorten(f.At) + ": " + f.Message
	}
	return f
}

// pointer formats a JSON Pointer.
func pointer(position []string) string {
	var b strings.Builder
	for _, token := range position {
		b.WriteString(fault.Key("", token))
	}
	return b.String()
}

// withoutMisspelled drops missing properties that the fault of an unknown argument already suggests.
func (r *report) withoutMisspelled(v *violation, missing []string) []string {
	var suggested []string
	for _, other := range r.violations {
		if k, ok := other.ErrorKind.(*kind.AdditionalProperties); ok && other.SchemaURL == v.SchemaURL && slices.Equal(other.InstanceLocation,
			v.InstanceLocation) {
			declared := r.declaredProperties(v.SchemaURL)
			for _, name := range k.Properties[:min(len(k.Properties), maxCompared)] {
				suggested = append(suggested, fault.Nearest(name, declared, 1)...)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return slices.Contains(suggested, name) })
}

// misspellingRemark returns a remark about the key that the caller probably wrote in place of a missing property; "": none.
func (r *report) misspellingRemark(v *violation, missing []string) string {
	object, _ := valueAt(r.value, v.InstanceLocation).(map[string]any)
	declared := r.declaredProperties(v.SchemaURL)
	var undeclared []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, ok := slices.BinarySearch(declared, name); !ok && len(undeclared) < maxCompared {
			undeclared = append(undeclared, name)
		}
	}
	for _, name := range missing[:min(len(missing), maxValues)] {
		if nearest := fault.Nearest(name, undeclared, 1); len(nearest) > 0 {
			return fmt.Sprintf(" (%s is not an argument)", fault.Quote(nearest[0]))
		}
	}
	return ""
}

// declaredProperties returns the properties that the violated schema declares, sorted.
func (r *report) declaredProperties(schema string) []string {
	base, fragment, _ := strings.Cut(schema, "#")
	if base != schemaURL {
		return nil // the violated schema is inside a schema with its own id
	}
	violated, _ := lookup(r.document(), fragment)
	object, _ := violated.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// document returns the normalized schema; nil if it is unusable. The result of compiling is not kept, because faults are rare, so the first
// call normalizes the schema again.
func (r *report) document() any {
	if r.doc == nil {
		doc, err := normalize(r.schema)
		if err != nil {
			return nil
		}
		r.doc = doc.root
	}
	return r.doc
}

// valueAt returns the value at a position; nil if there is none.
func valueAt(value any, position []string) any {
	for _, token := range position {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			element, ok := lookup(v, "/"+token)
			if !ok {
				return nil
			}
			value = element
		default:
			return nil
		}
	}
	return value
}
