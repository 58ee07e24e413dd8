package chain

import (
	"reflect"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// chain decodes the fields of a chain.
func (d *decoder) chain(root gjson.Result) *request {
	r := &request{}
	read := d.object(root, "", requestShape, reflect.ValueOf(r).Elem(), d.topFields, func(name string, v gjson.Result) bool {
		return d.beside(r, name, v)
	})
	r.text, r.stepsRaw = root.Raw, root.Get("steps").Raw
	if r.stepsRaw == "" {
		d.fault(fault.BadRequest, "", "steps is missing: a chain is {\"steps\":[{\"fn\":…,\"args\":{…}},…]}")
	}
	r.anyInput = r.Input == nil && d.faults.places["/input"]
	if len(r.hoisted) > 0 {
		d.common(r)
	}
	d.resumption(r)
	if read.check {
		d.tags(r, "")
	}
	return r
}

// resumption refuses what is said of an earlier run where there is none: of a request that goes on with one, it is the run's chain that is
// decoded.
func (d *decoder) resumption(r *request) {
	if r.Resume != "" {
		d.notSupported("/resume", "resume without a journal")
	}
	for _, field := range []struct {
		name  string
		given bool
	}{{"replace", r.Replace != nil}, {"assume", r.Assume != nil}, {"approve", r.Approve != ""}, {"undo", r.Undo}} {
		if field.given {
			d.fault(fault.BadRequest, "/"+field.name, "%s goes with resume, the text that a failed answer had", field.name)
		}
	}
	if r.Key != nil && !d.remembers {
		d.notSupported("/key", "key without a journal")
	}
}

// beside takes a member of the top level that is no field of a chain: one of a fetch, of which null is as if it were not
// there, or a hoisted one.
func (d *decoder) beside(r *request, name string, v gjson.Result) bool {
	if fetchShape.field(name) == nil {
		return d.hoist(r, name, v)
	}
	if v.Type != gjson.Null {
		d.fault(fault.BadRequest, fault.Key("", name), "%s goes with a continuation_token, to fetch from an earlier large result", name)
	}
	return true
}

func (d *decoder) steps(v gjson.Result, at string) []step {
	if !v.IsArray() {
		d.wrongType(at, "an array of steps", v)
		return nil
	}
	var steps []step
	v.ForEach(func(_, element gjson.Result) bool {
		steps = append(steps, step{})
		d.step(element, fault.Index(at, len(steps)-1), &steps[len(steps)-1])
		return len(steps) <= d.maxSteps
	})
	if len(steps) == 0 {
		d.fault(fault.BadRequest, at, "a chain has at least one step")
	}
	return steps
}

func (d *decoder) step(v gjson.Result, at string, s *step) {
	before := len(d.faults.list)
	read := d.object(v, at, stepShape, reflect.ValueOf(s).Elem(), stepShape.names, nil)
	if read.unknown {
		if f := misnamed(v, at); f != nil {
			d.faults.list = append(d.faults.list[:before], f)
			*s = step{ID: s.ID, argsBroken: true}
			return
		}
	}
	s.argsBroken = s.Args == nil && len(d.faults.list) > before && d.faults.places[at+"/args"]
	if v.IsObject() {
		d.kind(s, at)
	}
	if read.check {
		d.tags(s, at)
	}
}

// kind requires that a step says one thing to do, and nothing that an expression has no use for.
func (d *decoder) kind(s *step, at string) {
	kinds := 0
	for _, given := range []bool{s.Fn != "", s.Expr != nil, s.Chain != nil} {
		if given {
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

func (d *decoder) inline(v gjson.Result, at string) *inline {
	c := &inline{}
	d.object(v, at, inlineShape, reflect.ValueOf(c).Elem(), inlineShape.names, nil)
	if v.IsObject() && c.Steps == nil && !d.faults.places[at+"/steps"] {
		d.fault(fault.BadRequest, at, "steps is missing: an inline chain is {\"steps\":[…],\"return\":…}")
	}
	return c
}

// fetch decodes the fields of a fetch. Hoisted names at the top only say what was called before.
func (d *decoder) fetch(v gjson.Result, at string) *fetchRequest {
	f := &fetchRequest{at: at}
	read := d.object(v, at, fetchShape, reflect.ValueOf(f).Elem(), fetchShape.names, func(name string, _ gjson.Result) bool {
		return at == "" && slices.Contains(d.hoisted, name)
	})
	if read.check {
		d.tags(f, at)
	}
	return f
}
