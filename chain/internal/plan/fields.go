package plan

import (
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// DecodeChain decodes the fields of a chain.
func (d *decoder) DecodeChain(root gjson.Result) *Request {
	r, before := &Request{}, len(d.Faults.List)
	read := d.object(root, "", requestShape, reflect.ValueOf(r).Elem(), d.TopFields, func(name string, v gjson.Result) bool {
		return d.topMember(r, name, v)
	})
	r.Text, r.stepsRaw = root.Raw, root.Get("steps").Raw
	if r.stepsRaw == "" {
		if isStep(root) { // the fault replaces those of its fields
			d.Faults.List = d.Faults.List[:before]
		}
		d.Faults.Add(withoutSteps(root))
	}
	r.anyInput = r.Input == nil && d.Faults.pointers["/input"]
	if len(r.hoisted) > 0 {
		d.mergeHoisted(r)
	}
	d.checkResumption(r)
	if read.needsValidator {
		d.checkTags(r, "")
	}
	return r
}

// notAChain returns the fault of a request that is not an object.
func notAChain(v gjson.Result) *fault.Error {
	f := fault.New(fault.BadRequest, "a chain is a JSON object, {\"steps\":[…]}, not %s", decode.Describe(v))
	if v.IsArray() {
		f.Message += ": put the array under steps"
	}
	return f
}

// isStep reports whether an object is a step where a chain is expected.
func isStep(v gjson.Result) bool {
	return !v.Get("steps").Exists() && (v.Get("fn").Exists() || v.Get("expr").Exists() || v.Get("chain").Exists())
}

// withoutSteps returns the fault of a chain that has no steps.
func withoutSteps(v gjson.Result) *fault.Error {
	if isStep(v) {
		return fault.New(fault.BadRequest, "this is a step, not a chain: put it in an array under steps, {\"steps\":[{…}]}")
	}
	return fault.New(fault.BadRequest, "steps is missing: a chain is {\"steps\":[{\"fn\":…,\"args\":{…}},…]}")
}

// checkResumption refuses the fields that need an earlier run. When a run is resumed they are not decoded here: mergeResumed removes
// them.
func (d *decoder) checkResumption(r *Request) {
	if r.Resume != "" {
		d.refuseWithoutJournal("resume")
	}
	for _, field := range []struct {
		name  string
		isSet bool
	}{{"replace", r.Replace != nil}, {"assume", r.Assume != nil}, {"approve", r.Approve != ""}, {"undo", r.Undo}} {
		if field.isSet {
			d.fault(fault.BadRequest, "/"+field.name, "%s needs resume: the text under resume of a failed answer", field.name)
		}
	}
	if r.Key != nil && !d.HasJournal {
		d.refuseWithoutJournal("key")
	}
}

// topMember handles a top-level member that is not a field of a chain: a hoisted member, or a field of a fetch, for which null counts as
// absent.
func (d *decoder) topMember(r *Request, name string, v gjson.Result) bool {
	if fetchShape.field(name) == nil {
		return d.takeHoisted(r, name, v)
	}
	if v.Type != gjson.Null {
		d.fault(fault.BadRequest, fault.Key("", name), "%s goes with a continuation_token, to fetch from an earlier large result", name)
	}
	return true
}

func (d *decoder) decodeSteps(v gjson.Result, at string) []StepRequest {
	if !v.IsArray() {
		d.wrongType(at, "an array of steps", v)
		return nil
	}
	var steps []StepRequest
	v.ForEach(func(_, element gjson.Result) bool {
		steps = append(steps, StepRequest{})
		d.decodeStep(element, fault.Index(at, len(steps)-1), &steps[len(steps)-1])
		return len(steps) <= d.MaxSteps
	})
	if len(steps) == 0 {
		d.fault(fault.BadRequest, at, "a chain has at least one step")
	}
	return steps
}

func (d *decoder) decodeStep(v gjson.Result, at string, s *StepRequest) {
	if name, value, ok := strings.Cut(v.Str, ":"); ok && stepShape.field(name) != nil { // a string: Str is "" for any other value
		d.fault(fault.BadRequest, at, "must be an object, not %s: in YAML a space follows the colon, %s: %s", decode.Describe(v), name,
			fault.Clip(strings.TrimSpace(value), 60))
		return
	}
	before := len(d.Faults.List)
	read := d.object(v, at, stepShape, reflect.ValueOf(s).Elem(), stepShape.Names, nil)
	if read.hasUnknown {
		if f := misnamedFault(v, at); f != nil { // it replaces the other faults of the step, of which only the id is used
			d.Faults.List = append(d.Faults.List[:before], f)
			*s = StepRequest{ID: s.ID, argsBroken: true}
			return
		}
	}
	s.argsBroken = s.Args == nil && len(d.Faults.List) > 0 && d.Faults.pointers[at+"/args"]
	if v.IsObject() {
		d.checkKind(s, at)
	}
	if read.needsValidator {
		d.checkTags(s, at)
	}
}

// checkKind requires exactly one of fn, expr and chain, and refuses fields that make no sense with an expression.
func (d *decoder) checkKind(s *StepRequest, at string) {
	kinds := 0
	for _, isSet := range []bool{s.Fn != "", s.Expr != nil, s.Chain != nil} {
		if isSet {
			kinds++
		}
	}
	if kinds != 1 {
		d.fault(fault.BadRequest, at, "a step has exactly one of fn (a function's name), expr (an expression) and chain (an inline chain)")
		return
	}
	if s.Expr == nil {
		return
	}
	if s.Args != nil {
		d.fault(fault.BadRequest, at+"/args", "expr takes no args: write the references in the expression, as in sum($0.items, .price)")
	}
	if s.Repeat != nil {
		d.fault(fault.BadRequest, at+"/repeat", "an expression gives the same value each time: drop repeat")
	}
	if s.Retry != nil {
		d.fault(fault.BadRequest, at+"/retry", "an expression gives the same value each time: drop retry")
	}
}

func (d *decoder) decodeInline(v gjson.Result, at string) *InlineRequest {
	c, before := &InlineRequest{}, len(d.Faults.List)
	d.object(v, at, inlineShape, reflect.ValueOf(c).Elem(), inlineShape.Names, nil)
	if v.IsObject() && c.Steps == nil && !d.Faults.pointers[at+"/steps"] {
		if isStep(v) {
			d.Faults.List = append(d.Faults.List[:before], withoutSteps(v).Under(at))
			return c
		}
		d.fault(fault.BadRequest, at, "steps is missing: an inline chain is {\"steps\":[…],\"return\":…}")
	}
	return c
}

// decodeFetch decodes the fields of a fetch. Hoisted members at the top level are ignored.
func (d *decoder) decodeFetch(v gjson.Result, at string) *FetchRequest {
	f := &FetchRequest{at: at}
	read := d.object(v, at, fetchShape, reflect.ValueOf(f).Elem(), fetchShape.Names, func(name string, _ gjson.Result) bool {
		return at == "" && slices.Contains(d.Hoisted, name)
	})
	if read.needsValidator {
		d.checkTags(f, at)
	}
	return f
}
