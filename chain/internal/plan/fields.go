package plan

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// DecodeChain decodes the fields of a chain.
func (d *decoder) DecodeChain(root gjson.Result) *Request {
	r, before := &Request{}, len(d.Faults.List)
	read := d.Object(root, "", requestTable, r, d.TopFields, func(name string, v gjson.Result) bool { return d.topMember(r, name, v) })
	for _, own := range read.Own() {
		if own.Name == "ifChanged" {
			r.IfChanged = d.ifChanged(own.Value)
		} else {
			r.Steps = d.decodeSteps(own.Value, "/steps")
		}
	}
	if r.IfChanged != nil {
		d.checkIfChanged(r)
	}
	if d.hasShort {
		root = gjson.ParseBytes(Canonical([]byte(root.Raw)))
	}
	r.Text, r.stepsRaw = root.Raw, root.Get("steps").Raw
	if r.stepsRaw == "" {
		if isStep(root) { // the fault replaces those of its fields
			d.Faults.List = d.Faults.List[:before]
		}
		d.Faults.Add(withoutSteps(root))
	}
	r.anyInput = r.Input == nil && d.Faults.At("/input")
	if len(r.hoisted) > 0 {
		d.mergeHoisted(r)
	}
	d.checkResumption(r)
	if read.NeedsValidator {
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
	if v.Get("steps").Exists() {
		return false
	}
	short := 0
	v.ForEach(func(key, value gjson.Result) bool {
		if requestTable.Field(key.String()) == nil && fetchTable.Field(key.String()) == nil && value.IsObject() {
			short++
		}
		return true
	})
	return v.Get("fn").Exists() || v.Get("expr").Exists() || v.Get("chain").Exists() || short == 1
}

// withoutSteps returns the fault of a chain that has no steps.
func withoutSteps(v gjson.Result) *fault.Error {
	if isStep(v) {
		return fault.New(fault.BadRequest, "this is a step, not a chain: put it in an array under steps, {\"steps\":[{…}]}")
	}
	return fault.New(fault.BadRequest, "steps is missing: a chain is {\"steps\":[{\"fn\":…,\"args\":{…}},…]}")
}

// checkResumption refuses the fields that need an earlier run. When a run is resumed they are not decoded here: Ledger.Merge removes
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
			d.Fault(fault.BadRequest, "/"+field.name, "%s needs resume: the text under resume of a failed answer", field.name)
		}
	}
	if r.Key != nil && !d.HasJournal {
		d.refuseWithoutJournal("key")
	}
}

// topMember handles a top-level member that is not a field of a chain: a hoisted member, or a field of a fetch, for which null counts as
// absent.
func (d *decoder) topMember(r *Request, name string, v gjson.Result) bool {
	if fetchTable.Field(name) == nil {
		return d.takeHoisted(r, name, v)
	}
	if v.Type != gjson.Null {
		d.Fault(fault.BadRequest, fault.Key("", name), "%s goes with a continuation_token, to fetch from an earlier large result", name)
	}
	return true
}

func (d *decoder) decodeSteps(v gjson.Result, at string) []StepRequest {
	if !v.IsArray() {
		d.WrongType(at, "an array of steps", v)
		return nil
	}
	var steps []StepRequest
	v.ForEach(func(_, element gjson.Result) bool {
		steps = append(steps, StepRequest{})
		d.decodeStep(element, fault.Index(at, len(steps)-1), &steps[len(steps)-1])
		return len(steps) <= d.MaxSteps
	})
	if len(steps) == 0 {
		d.Fault(fault.BadRequest, at, "a chain has at least one step")
	}
	return steps
}

func (d *decoder) decodeStep(v gjson.Result, at string, s *StepRequest) {
	if name, value, ok := strings.Cut(v.Str, ":"); ok && stepTable.Field(name) != nil { // a string: Str is "" for any other value
		d.Fault(fault.BadRequest, at, "must be an object, not %s: in YAML a space follows the colon, %s: %s", decode.Describe(v), name,
			fault.Clip(strings.TrimSpace(value), 60))
		return
	}
	before := len(d.Faults.List)
	var list []named
	read := d.Object(v, at, stepTable, s, stepTable.Names, collect(&list, stepTable))
	for _, own := range read.Own() {
		switch own.Name {
		case "chain":
			s.Chain = d.decodeInline(own.Value, at+"/chain")
		case "when":
			s.When = d.condition(own.Value, at+"/when")
		case "forEach":
			s.ForEach = d.list(own.Value, at+"/forEach")
		case "undo":
			s.Undo = d.decodeUndo(own.Value, at+"/undo")
		}
	}
	if read.HasUnknown || len(list) > 0 {
		if f := misnamedFault(v, at); f != nil { // it replaces the other faults of the step, of which only the id is used
			d.Faults.List = append(d.Faults.List[:before], f)
			*s = StepRequest{ID: s.ID, argsBroken: true}
			return
		}
	}
	if len(list) > 0 {
		if d.takeShort(s, list, at) {
			*s = StepRequest{ID: s.ID, argsBroken: true}
			return
		}
	}
	s.argsBroken = s.Args == nil && len(d.Faults.List) > 0 && d.Faults.At(at+"/args")
	if v.IsObject() {
		d.checkKind(s, at)
	}
	if read.NeedsValidator {
		d.checkTags(s, at)
	}
}

// condition decodes an expression, for which true and false need no quotes.
func (d *decoder) condition(v gjson.Result, at string) *string {
	if word := v.Raw; v.IsBool() {
		return &word
	}
	return d.optionalText(v, at)
}

// list decodes an expression that gives an array.
func (d *decoder) list(v gjson.Result, at string) *string {
	if v.Type == gjson.String {
		return d.optionalText(v, at)
	}
	d.Fault(fault.BadRequest, at, `must be a string, not %s: a reference such as "$0.items", or an expression that gives an array, such as `+
		`"[1, 2]"`, decode.Describe(v))
	none := "[]" // the other fields of the step may use $item
	return &none
}

func (d *decoder) optionalText(v gjson.Result, at string) *string {
	text := d.Text(v, at)
	if v.Type != gjson.String {
		return nil
	}
	return &text
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
		d.Fault(fault.BadRequest, at, "a step has exactly one of fn (a function's name), expr (an expression) and chain (an inline chain)")
		return
	}
	if s.Expr == nil {
		return
	}
	if s.Args != nil {
		d.Fault(fault.BadRequest, at+"/args", "expr takes no args: write the references in the expression, as in sum($0.items, .price)")
	}
	if s.Repeat != nil {
		d.Fault(fault.BadRequest, at+"/repeat", "an expression gives the same value each time: drop repeat")
	}
	if s.Retry != nil {
		d.Fault(fault.BadRequest, at+"/retry", "an expression gives the same value each time: drop retry")
	}
}

func (d *decoder) decodeInline(v gjson.Result, at string) *InlineRequest {
	c, before := &InlineRequest{}, len(d.Faults.List)
	read := d.Object(v, at, inlineTable, c, inlineTable.Names, nil)
	for _, own := range read.Own() {
		c.Steps = d.decodeSteps(own.Value, at+"/steps")
	}
	if v.IsObject() && c.Steps == nil && !d.Faults.At(at+"/steps") {
		if isStep(v) {
			d.Faults.List = append(d.Faults.List[:before], withoutSteps(v).Under(at))
			return c
		}
		d.Fault(fault.BadRequest, at, "steps is missing: an inline chain is {\"steps\":[…],\"return\":…}")
	}
	return c
}

// decodeFetch decodes the fields of a fetch. Hoisted members at the top level are ignored.
func (d *decoder) decodeFetch(v gjson.Result, at string) *FetchRequest {
	f := &FetchRequest{at: at}
	read := d.Object(v, at, fetchTable, f, fetchTable.Names, func(name string, _ gjson.Result) bool {
		return at == "" && slices.Contains(d.Hoisted, name)
	})
	if read.NeedsValidator {
		d.checkTags(f, at)
	}
	return f
}
