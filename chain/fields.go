package chain

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// chain decodes the fields of a chain.
func (d *decoder) chain(root gjson.Result) *request {
	r := &request{}
	hasSteps := false
	d.object(root, "", d.topFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "steps":
			r.Steps, r.stepsRaw, hasSteps = d.steps(v, "/steps"), v.Raw, true
		case "input":
			r.Input = d.raw(v, at, name, "object")
			r.anyInput = r.Input == nil && v.Type != gjson.Null
		case "params":
			r.Params = d.raw(v, at, name, "object")
		case "common":
			r.Common = d.raw(v, at, name, "object")
		case "return":
			r.Return = d.raw(v, at, name, "")
		case "verify":
			r.Verify = d.flag(v, at, name)
		case "budget":
			r.Budget = d.budget(v, "/budget")
		case "onError":
			if r.OnError = d.text(v, at, name); r.OnError == "undo" {
				d.notSupported(v, "/onError", "onError \"undo\"")
				r.OnError = ""
			}
		case "lite":
			r.Lite = d.boolean(v, at, name)
		case "dryRun":
			r.DryRun = d.flag(v, at, name)
		case "trace":
			r.Trace = d.text(v, at, name)
		case "name":
			r.Name = d.text(v, at, name)
		case "description", "version", "$schema":
			d.text(v, at, name)
		case "resume", "replace", "assume", "approve":
			d.notSupported(v, fault.Key(at, name), name)
		case "continuation_token": // null: another is a fetch
		case "mode", "page", "page_size", "filter_keys", "query":
			if v.Type == gjson.Null {
				break
			}
			d.fault(fault.BadRequest, fault.Key(at, name), "%s goes with a continuation_token, to fetch from an earlier large result", name)
		default:
			return d.hoist(r, name, v)
		}
		return true
	})
	if !hasSteps {
		d.fault(fault.BadRequest, "", "steps is missing: a chain is {\"steps\":[{\"fn\":…,\"args\":{…}},…]}")
	}
	d.common(r)
	d.tags(r, "")
	return r
}

func (d *decoder) steps(v gjson.Result, at string) []step {
	if !v.IsArray() {
		d.wrongType(at, "an array of steps", v)
		return nil
	}
	var steps []step
	v.ForEach(func(_, element gjson.Result) bool {
		steps = append(steps, d.step(element, fault.Index(at, len(steps))))
		return len(steps) <= d.maxSteps
	})
	if len(steps) == 0 {
		d.fault(fault.BadRequest, at, "a chain has at least one step")
	}
	return steps
}

func (d *decoder) step(v gjson.Result, at string) step {
	var s step
	plain := true // it has none of the fields whose tags say more than their type
	known, before := true, len(d.faults.list)
	d.object(v, at, stepFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "fn":
			s.Fn = d.text(v, at, name)
			plain = plain && len(s.Fn) <= maxFunctionName
			return true
		case "args":
			s.Args = d.raw(v, at, name, "object")
			s.argsBroken = s.Args == nil && v.Type != gjson.Null
			return true
		case "chain":
			s.Chain = d.inline(v, fault.Key(at, name))
			return true
		}
		plain = false
		switch name {
		case "expr":
			s.Expr = d.optionalText(v, at, name)
		case "id":
			s.ID = d.text(v, at, name)
		case "when":
			s.When = d.expression(v, at, name)
		case "forEach":
			s.ForEach = d.optionalText(v, at, name)
		case "concurrency":
			s.Concurrency = d.integer(v, at, name)
		case "repeat":
			s.Repeat = d.repeat(v, fault.Key(at, name))
		case "select":
			s.Select = d.optionalText(v, at, name)
		case "orElse":
			s.OrElse = d.raw(v, at, name, "")
		case "timeoutMs":
			s.TimeoutMs = d.integer(v, at, name)
		case "retry":
			s.Retry = d.retry(v, fault.Key(at, name))
		case "undo":
			d.notSupported(v, fault.Key(at, name), name)
		default:
			known = false
		}
		return known
	})
	if !known {
		if f := misnamed(v, at); f != nil {
			d.faults.list = append(d.faults.list[:before], f)
			return step{ID: s.ID, argsBroken: true}
		}
	}
	if v.IsObject() {
		d.kind(&s, at)
	}
	if !plain {
		d.tags(&s, at)
	}
	return s
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

// expression reads an expression; `true` and `false` may be written without quotes.
func (d *decoder) expression(v gjson.Result, at, name string) *string {
	if v.IsBool() {
		return &v.Raw
	}
	return d.optionalText(v, at, name)
}

func (d *decoder) inline(v gjson.Result, at string) *inline {
	if v.Type == gjson.Null {
		return nil
	}
	c := &inline{}
	hasSteps := false
	d.object(v, at, inlineFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "steps":
			c.Steps, hasSteps = d.steps(v, fault.Key(at, name)), true
		case "return":
			c.Return = d.raw(v, at, name, "")
		default:
			return false
		}
		return true
	})
	if v.IsObject() && !hasSteps {
		d.fault(fault.BadRequest, at, "steps is missing: an inline chain is {\"steps\":[…],\"return\":…}")
	}
	return c
}

func (d *decoder) budget(v gjson.Result, at string) *budgetRequest {
	if v.Type == gjson.Null {
		return nil
	}
	b := &budgetRequest{}
	d.object(v, at, budgetFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "maxTotalTokens":
			b.MaxTotalTokens = d.integer(v, at, name)
		case "maxSteps":
			b.MaxSteps = d.integer(v, at, name)
		case "maxCalls":
			b.MaxCalls = d.integer(v, at, name)
		case "maxDurationMs":
			b.MaxDurationMs = d.integer(v, at, name)
		default:
			return false
		}
		return true
	})
	return b
}

func (d *decoder) repeat(v gjson.Result, at string) *repeatRequest {
	if v.Type == gjson.Null {
		return nil
	}
	r := &repeatRequest{}
	d.object(v, at, repeatFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "until":
			r.Until = d.text(v, at, name)
		case "max":
			r.Max = d.number(v, at, name)
		case "delayMs":
			r.DelayMs = d.number(v, at, name)
		case "collect":
			r.Collect = d.optionalText(v, at, name)
		default:
			return false
		}
		return true
	})
	return r
}

func (d *decoder) retry(v gjson.Result, at string) *retryRequest {
	if v.Type == gjson.Null {
		return nil
	}
	r := &retryRequest{}
	d.object(v, at, retryFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "max":
			r.Max = d.number(v, at, name)
		case "backoffMs":
			r.BackoffMs = d.number(v, at, name)
		default:
			return false
		}
		return true
	})
	return r
}

// fetch decodes the fields of a fetch. Hoisted names at the top only say what was called before.
func (d *decoder) fetch(v gjson.Result, at string) *fetchRequest {
	f := &fetchRequest{at: at}
	d.object(v, at, fetchFields, func(name string, v gjson.Result, at string) bool {
		switch name {
		case "continuation_token":
			f.Token = d.text(v, at, name)
		case "mode":
			f.Mode = d.text(v, at, name)
		case "page":
			f.Page = d.page(v, at, name)
		case "page_size":
			f.PageSize = d.page(v, at, name)
		case "filter_keys":
			f.FilterKeys = d.texts(v, fault.Key(at, name))
		case "query":
			f.Query = d.text(v, at, name)
		case "budget":
			f.Budget = d.budget(v, fault.Key(at, name))
		case "lite":
			f.Lite = d.boolean(v, at, name)
		default:
			return at == "" && slices.Contains(d.hoisted, name)
		}
		return true
	})
	d.tags(f, at)
	return f
}

// page reads a page number or size; what is not a whole number of at least 1 is bad_page.
func (d *decoder) page(v gjson.Result, at, name string) *int {
	var own decoder
	n := own.integer(v, at, name)
	if len(own.faults.list) > 0 || n != nil && *n < 1 {
		want := "a whole number from 1"
		if v.Type == gjson.Number && v.Num > maxInteger {
			want += " to " + itoa(maxInteger)
		}
		d.fault(fault.BadPage, fault.Key(at, name), "must be %s, not %s", want, kindOf(v))
		return nil
	}
	return n
}

func (d *decoder) texts(v gjson.Result, at string) []string {
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsArray() {
		d.wrongType(at, "an array of strings", v)
		return nil
	}
	var texts []string
	v.ForEach(func(_, element gjson.Result) bool {
		if element.Type != gjson.String {
			d.wrongType(fault.Index(at, len(texts)), "a string", element)
		}
		texts = append(texts, element.Str)
		return true
	})
	return texts
}
