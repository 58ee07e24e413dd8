package steps

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onecall-mcp/onecall/fault"
)

// Hole is a place of the arguments whose value is not known yet.
type Hole struct {
	At    string   // JSON Pointer in the arguments
	Types []string // the JSON Schema types that the value may have; nil: not known; text put together: ["string"]
}

// Check finds what is wrong with arguments of which some places are not known: only what no value of the holes could
// put right. What stands in args at a hole does not matter. At most 20 faults of code bad_arguments, sorted by place; At
// is the place in args, which the message repeats, Available and Nearest are the properties or values that would do.
func (e *Entry) Check(args []byte, holes []Hole) []*fault.Error {
	open := make([]hole, len(holes))
	for i, h := range holes {
		if h.At == "" {
			return nil // nothing at all is known
		}
		open[i] = hole{at: tokens(h.At), types: typesNamed(h.Types)}
	}
	compact, f := compactJSON(orEmpty(args))
	if f == nil {
		return e.check(compact, open)
	}
	f.Code, f.Message = fault.BadArguments, "the arguments are not JSON: "+f.Message
	return []*fault.Error{f}
}

// accept checks the arguments of a call, and returns them compact.
func (e *Entry) accept(args []byte) ([]byte, *fault.Error) {
	compact, f := compactJSON(orEmpty(args))
	if f != nil {
		f.Code, f.Message = fault.BadArguments, e.spec.Name+": the arguments are not JSON: "+f.Message
		return nil, f
	}
	if faults := e.check(compact, nil); len(faults) > 0 {
		return nil, e.joined(faults)
	}
	return compact, nil
}

// joined is one fault for all that is wrong with a call's arguments; its place is that of a single one.
func (e *Entry) joined(faults []*fault.Error) *fault.Error {
	messages := make([]string, len(faults))
	for i, f := range faults {
		messages[i] = f.Message
	}
	one := *faults[0]
	if len(faults) > 1 {
		one.At = ""
	}
	one.Message = e.spec.Name + ": " + strings.Join(messages, "; ")
	return &one
}

// orEmpty takes no arguments at all as an empty object.
func orEmpty(args []byte) []byte {
	if len(args) == 0 {
		return []byte("{}")
	}
	return args
}

// check validates compact arguments, except for the holes.
func (e *Entry) check(compact []byte, holes []hole) []*fault.Error {
	if compact[0] != '{' {
		return []*fault.Error{fault.New(fault.BadArguments, "the arguments are no JSON object")}
	}
	return violations(e.spec, e.spec.Input, e.input, compact, holes)
}

// violations validates a compact value against a compiled schema, except for the holes.
func violations(spec *Spec, source []byte, schema *jsonschema.Schema, compact []byte, holes []hole) []*fault.Error {
	if schema == nil {
		return nil
	}
	value, f := decode(compact)
	if f != nil {
		if f.At != "" {
			f.Message = shorten(f.At) + ": " + f.Message
		}
		return []*fault.Error{f}
	}
	for _, h := range holes {
		h.fill(value)
	}
	var tree *violation
	if !errors.As(schema.Validate(value), &tree) {
		return nil
	}
	r := report{schema: source, secret: spec.Redact != nil, value: value, holes: holes}
	return r.faults(tree)
}

// hole is a place with a value that is not known.
type hole struct {
	at    []string
	types typeSet
}

// fill puts a value of one of the hole's types at its place, so that a wrong type shows, and nothing is found below it.
func (h hole) fill(value any) {
	for i, token := range h.at {
		last := i == len(h.at)-1
		switch v := value.(type) {
		case map[string]any:
			if _, ok := v[token]; !ok {
				return
			}
			if last {
				v[token] = h.sample()
			}
			value = v[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(v) {
				return
			}
			if last {
				v[n] = h.sample()
			}
			value = v[n]
		default:
			return
		}
	}
}

func (h hole) sample() any {
	switch {
	case h.types&typeString != 0:
		return ""
	case h.types&(typeInteger|typeFraction) != 0:
		return json.Number("0")
	case h.types&typeObject != 0:
		return map[string]any{}
	case h.types&typeArray != 0:
		return []any{}
	case h.types&typeBoolean != 0:
		return false
	}
	return nil
}

// relation is where a place stands to the holes.
type relation uint8

const (
	apart  relation = iota // no hole is on its way or below it
	above                  // there is a hole below it
	atHole                 // it is a hole
)

// relate finds the closest relation of a place to a hole. No place is below a hole, as none is filled with members.
func (r *report) relate(place []string) (relation, typeSet) {
	found, types := apart, anyType
	for _, h := range r.holes {
		n := min(len(h.at), len(place))
		if !slices.Equal(h.at[:n], place[:n]) {
			continue
		}
		relation := above
		if len(place) >= len(h.at) {
			relation = atHole
		}
		if relation > found {
			found, types = relation, h.types
		}
	}
	return found, types
}
