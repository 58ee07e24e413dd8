package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/onecall-mcp/onecall/fault"
)

// describe writes the faults of one violation: one for each property that is not known (at most most), else one. It
// also gives the number of mistakes that they tell of.
func (r *report) describe(v *violation, most int) (faults []*fault.Error, told int) {
	place := v.InstanceLocation
	var f *fault.Error
	switch k := v.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return r.strangers(v, k.Properties, most), min(len(k.Properties), most)
	case *kind.Required:
		missing := r.notMisspelt(v, k.Missing)
		if len(missing) == 0 {
			return nil, 1
		}
		f = r.fault(place, "missing "+quoted(missing)+r.misspelt(v, missing))
		f.Available = r.declaredAt(v.SchemaURL)
	case *kind.Enum:
		f = r.fault(place, r.sentence(v))
		for _, value := range k.Want {
			if word, ok := value.(string); ok && len(f.Available) < maxListed {
				f.Available = append(f.Available, word)
			}
		}
		if got, ok := k.Got.(string); ok && !r.secret {
			f.Nearest = fault.Nearest(got, f.Available, 1)
		}
	case *kind.PropertyNames:
		if object, _ := valueAt(r.value, place).(map[string]any); object == nil && len(place) > 0 {
			place = place[:len(place)-1]
		}
		f = r.fault(place, r.sentence(v))
	default:
		f = r.fault(place, r.sentence(v))
	}
	return []*fault.Error{f}, mistakes(v)
}

// strangers writes a fault for each of the first properties that an object must not have.
func (r *report) strangers(v *violation, names []string, most int) []*fault.Error {
	declared := r.declaredAt(v.SchemaURL)
	names = slices.Sorted(slices.Values(names))
	var faults []*fault.Error
	for _, name := range names[:min(len(names), most)] {
		message := "unknown argument"
		nearest := fault.Nearest(name, declared, maxNearest)
		if len(nearest) > 0 {
			message += ", did you mean " + fault.Quote(nearest[0]) + "?"
		}
		f := r.fault(append(slices.Clone(v.InstanceLocation), name), message)
		f.Available, f.Nearest = declared, nearest
		faults = append(faults, f)
	}
	return faults
}

// fault makes a fault whose message begins with its place.
func (r *report) fault(place []string, message string) *fault.Error {
	f := fault.New(fault.BadArguments, "%s", message)
	f.At = pointer(place)
	if f.At != "" {
		f.Message = shorten(f.At) + ": " + f.Message
	}
	return f
}

// pointer writes a JSON Pointer.
func pointer(place []string) string {
	var b strings.Builder
	for _, token := range place {
		b.WriteString(fault.Key("", token))
	}
	return b.String()
}

// notMisspelt leaves out of what an object misses what the fault of an unknown argument in it already asks for.
func (r *report) notMisspelt(v *violation, missing []string) []string {
	var asked []string
	for _, other := range r.found {
		if k, ok := other.ErrorKind.(*kind.AdditionalProperties); ok && other.SchemaURL == v.SchemaURL && slices.Equal(other.InstanceLocation, v.InstanceLocation) {
			declared := r.declaredAt(v.SchemaURL)
			for _, name := range k.Properties[:min(len(k.Properties), maxCompared)] {
				asked = append(asked, fault.Nearest(name, declared, 1)...)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return slices.Contains(asked, name) })
}

// misspelt names the key that was probably meant for a missing one.
func (r *report) misspelt(v *violation, missing []string) string {
	object, _ := valueAt(r.value, v.InstanceLocation).(map[string]any)
	declared := r.declaredAt(v.SchemaURL)
	var strangers []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, ok := slices.BinarySearch(declared, name); !ok && len(strangers) < maxCompared {
			strangers = append(strangers, name)
		}
	}
	for _, name := range missing[:min(len(missing), maxValues)] {
		if near := fault.Nearest(name, strangers, 1); len(near) > 0 {
			return fmt.Sprintf(" (%s is not an argument of it)", fault.Quote(near[0]))
		}
	}
	return ""
}

// declaredAt lists the properties that the violated schema declares, sorted.
func (r *report) declaredAt(schema string) []string {
	base, fragment, _ := strings.Cut(schema, "#")
	if base != schemaURL {
		return nil // below an id of its own
	}
	violated, _ := lookup(r.document(), fragment)
	object, _ := violated.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// document is the schema as it was compiled. It is read again, as faults are rare.
func (r *report) document() any {
	if r.doc == nil {
		doc, err := normalise(r.schema)
		if err != nil {
			return nil
		}
		r.doc = doc.root
	}
	return r.doc
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
