package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Hole is a place of the arguments whose value is not known yet.
type Hole struct {
	At    string   // JSON Pointer in the arguments
	Types []string // the JSON Schema types that the value may have; nil: not known; text put together: ["string"]
}

// checkTime bounds a check of a plan, for which no caller's deadline counts.
const checkTime = 2 * time.Second

// Check finds what is wrong with arguments of which some places are not known: only what no value of the holes could
// put right. What stands in args at a hole does not matter. At most 20 faults of code bad_arguments, sorted by place; At
// is the place in args, which the message repeats, Available and Nearest are the properties or values that would do.
// If the function has secrets (Spec.Redact), keys are shown and values are not. A check
// that takes more than two seconds, or more work than the size of the arguments allows, finds nothing: Call decides then.
func (e *Entry) Check(args []byte, holes []Hole) []*fault.Error {
	compact, f := compactJSON(orEmpty(args), maxArgsDepth)
	if f != nil {
		f.Code, f.Message = fault.BadArguments, "the arguments are not JSON: "+f.Message
		return []*fault.Error{f}
	}
	compact, given := e.prepare().apply(compact)
	holes = declaredHoles(holes, given)
	open := make([]hole, len(holes))
	for i, h := range holes {
		if h.At == "" {
			return nil // nothing at all is known
		}
		open[i] = hole{at: tokens(h.At), types: typesNamed(h.Types)}
	}
	var faults []*fault.Error
	if len(open) > 0 || !e.fits(compact) {
		ctx, cancel := context.WithTimeout(context.Background(), checkTime)
		defer cancel()
		var err error
		if faults, err = e.check(ctx, compact, open); err != nil {
			return nil
		}
	}
	if len(faults) == 0 {
		if f := e.inspect(compact, holes); f != nil {
			faults = append(faults, f)
		}
	}
	return accepted(faults, given)
}

// inspect asks the function itself about arguments that fit its schema.
func (e *Entry) inspect(args []byte, holes []Hole) (f *fault.Error) {
	if e.spec.Check == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			f = nil // the call will tell
		}
	}()
	return e.spec.Check(args, func(at string) bool {
		for _, h := range holes {
			if h.At == at || strings.HasPrefix(at, h.At+"/") {
				return false
			}
		}
		return true
	})
}

// accept checks the arguments of a call, and returns them compact.
func (e *Entry) accept(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	compact, f := compactJSON(orEmpty(args), maxArgsDepth)
	if f != nil {
		f.Code, f.Message = fault.BadArguments, e.spec.Name+": the arguments are not JSON: "+f.Message
		return nil, f
	}
	compact, given := e.prepare().apply(compact)
	faults, err := e.check(ctx, compact, nil)
	switch {
	case errors.Is(err, errTooMuchWork):
		return nil, tooMuchWork(e.spec.Name+": the arguments", err)
	case err != nil:
		return nil, e.stopped(ctx)
	case len(faults) > 0:
		return nil, e.joined(accepted(faults, given))
	}
	return compact, nil
}

func tooMuchWork(what string, err error) *fault.Error {
	f := fault.New(fault.LimitExceeded, "%s cannot be checked against the schema with a reasonable amount of work: make them smaller or less nested", what)
	f.Err = err
	return f
}

// maxJoined bounds, in bytes, the message for all that is wrong with a call's arguments.
const maxJoined = 4000

// joined is one fault for all that is wrong with a call's arguments; its place is that of a single one.
func (e *Entry) joined(faults []*fault.Error) *fault.Error {
	one := *faults[0]
	one.Message = e.spec.Name + ": " + one.Message
	for i, f := range faults[1:] {
		one.At = ""
		if len(one.Message)+len(f.Message) > maxJoined {
			one.Message += fmt.Sprintf("; and %d more", len(faults)-1-i)
			break
		}
		one.Message += "; " + f.Message
	}
	return &one
}

// orEmpty takes no arguments at all as an empty object.
func orEmpty(args []byte) []byte {
	if len(args) == 0 {
		return []byte("{}")
	}
	return args
}

// check validates compact arguments, except for the holes. An error says why it could not be done.
func (e *Entry) check(ctx context.Context, compact []byte, holes []hole) ([]*fault.Error, error) {
	if compact[0] != '{' {
		return []*fault.Error{fault.New(fault.BadArguments, "the arguments are no JSON object")}, nil
	}
	if len(holes) == 0 && e.fits(compact) {
		return nil, nil
	}
	return violations(ctx, e.spec, e.spec.Input, e.input, compact, holes)
}

// fits tells whether compact arguments certainly fit the input schema; where it does not, they may.
func (e *Entry) fits(compact []byte) bool {
	p := e.plain()
	return compact[0] == '{' && p != nil && p.accepts(gjson.ParseBytes(compact))
}

// violations validates a compact value against a compiled schema, except for the holes.
func violations(ctx context.Context, spec *Spec, source []byte, schema *validators, compact []byte, holes []hole) ([]*fault.Error, error) {
	if schema == nil {
		return nil, nil
	}
	r := newReport(source, spec.Redact != nil, holes)
	value, f := decode(compact)
	if f != nil {
		return []*fault.Error{r.undecoded(f)}, nil
	}
	for _, h := range holes {
		h.fill(value)
	}
	tree, err := schema.validate(ctx, value, len(compact))
	if tree == nil || err != nil {
		return nil, err
	}
	r.value = value
	return r.faults(tree), nil
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

// holeTree holds holes by their places.
type holeTree struct {
	below map[string]*holeTree
	hole  bool
	types typeSet
}

func newHoleTree(holes []hole) *holeTree {
	root := &holeTree{}
	for _, h := range holes {
		t := root
		for _, token := range h.at {
			next := t.below[token]
			if next == nil {
				if t.below == nil {
					t.below = map[string]*holeTree{}
				}
				next = &holeTree{}
				t.below[token] = next
			}
			t = next
		}
		if !t.hole {
			t.hole, t.types = true, h.types
		}
	}
	return root
}

// relate finds the closest relation of a place to a hole. What is below a hole counts as the hole.
func (t *holeTree) relate(place []string) (relation, typeSet) {
	for _, token := range place {
		if t.hole {
			break
		}
		if t = t.below[token]; t == nil {
			return apart, anyType
		}
	}
	switch {
	case t.hole:
		return atHole, t.types
	case len(t.below) > 0:
		return above, anyType
	}
	return apart, anyType
}
