package plan

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/steps"
)

// ifChanged decodes the field of this name: a boolean, or a continuation token.
func (d *decoder) ifChanged(v gjson.Result) *string {
	switch {
	case v.Type == gjson.False:
		return nil
	case v.Type == gjson.True:
		return new(string)
	case v.Type == gjson.String && strings.HasPrefix(v.Str, budget.TokenPrefix):
		return &v.Str
	}
	d.Fault(fault.BadRequest, "/ifChanged", "must be true, false, or the continuation_token of an earlier answer with ifChanged (%s…), not %s",
		budget.TokenPrefix, decode.Describe(v))
	return nil
}

// checkIfChanged refuses ifChanged beside the fields for which the answer may be given again, or to someone else.
func (d *decoder) checkIfChanged(r *Request) {
	for _, field := range []struct {
		name  string
		isSet bool
	}{{"key", r.Key != nil}, {"async", r.Async}, {"asyncAfterMs", r.AsyncAfterMs != nil}, {"durable", r.Durable != nil && *r.Durable}} {
		if field.isSet {
			d.Fault(fault.BadRequest, "/ifChanged", "ifChanged does not go with %s, whose answer may be given more than once: leave out one of the two",
				field.name)
			return
		}
	}
}

// compareAnswer makes the answer one that ifChanged can compare, or warns that it cannot.
func (c *compiler) compareAnswer(p *Plan) {
	if len(c.faults.List) > 0 || len(p.Steps) == 0 {
		return
	}
	if n := p.AnswersStep(); n >= 0 && p.Steps[n].Fn != nil && p.Steps[n].Effect == steps.Read && p.Steps[n].Until == nil {
		p.Compares, p.Steps[n].KeepArgs = true, true
		return
	}
	c.Warnings.Add(fault.New(fault.BadRequest, "ifChanged does nothing here: it is for the whole result of one read, of a step that calls a "+
		"function which only reads, without select, forEach and repeat, and is the last one or the one that return names alone").
		Under("/ifChanged"))
}
