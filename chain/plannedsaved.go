package chain

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// savedRequest decodes a saved chain. The request is nil if compact is not an object, which is a fault.
func (q *requestRules) savedRequest(compact []byte) (*request, *faultList) {
	withJournal := *q
	withJournal.hasJournal = true
	d := &decoder{requestRules: &withJournal}
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		d.fault(fault.BadRequest, "", "a chain is a JSON object, {\"steps\":[…]}, not %s", describeValue(root))
		return nil, &d.faults
	}
	return d.decodeChain(root), &d.faults
}

// collectFunctions adds the functions that steps call, and those that their undo calls, including inline chains, each once.
func collectFunctions(list []step, functions, undoes []string) (_, _ []string) {
	for i := range list {
		s := &list[i]
		if s.Fn != "" && !slices.Contains(functions, s.Fn) {
			functions = append(functions, s.Fn)
		}
		if s.Undo != nil && !slices.Contains(undoes, s.Undo.Fn) {
			undoes = append(undoes, s.Undo.Fn)
		}
		if s.Chain != nil {
			functions, undoes = collectFunctions(s.Chain.Steps, functions, undoes)
		}
	}
	return functions, undoes
}

// schema returns the input schema of a saved chain, and the defaults of its members.
func (r *request) schema() (schema, defaults []byte) {
	properties, values := newTable(r.Params), newTable(r.Input)
	for _, value := range values.list {
		if !properties.has(value.name) {
			properties.set(value.name, "{}")
		}
	}
	var required []byte
	for _, param := range properties.list {
		value := gjson.Get(param.raw, "default")
		switch {
		case values.has(param.name):
		case value.Exists():
			values.set(param.name, value.Raw)
		default:
			required = rawjson.AppendQuote(append(required, ','), param.name)
		}
	}
	schema = appendObject([]byte(`{"type":"object","properties":`), properties.list)
	if required != nil {
		schema = append(append(append(schema, `,"required":[`...), required[1:]...), ']')
	}
	return append(schema, `,"additionalProperties":false}`...), appendObject(nil, values.list)
}

// compileSaved compiles a saved chain in place of the step that names it: with its own onError, common and return, and with the functions
// of the caller.
func (c *compiler) compileSaved(l *level, s *step, p *plannedStep, entry *steps.Entry) {
	spec, at := entry.Spec(), p.at+"/fn"
	if f := c.nestingFault(spec.Name); f != nil {
		c.faults.add(f.Under(at))
		return
	}
	r, faults := c.rules.requests.savedRequest(spec.Saved.Text)
	if len(faults.list) == 0 {
		c.lower(r.Budget)
		inner := newCompiler(c.compilation, r, faults)
		inner.saved = append(slices.Clone(c.saved), spec.Name)
		// What the saved chain adds to the signatures and warnings is dropped again; its steps count.
		signatures, warnings := c.signatures, len(c.warnings)
		c.signatures = nil
		p.inline = inner.compileLevel(&level{at: p.at + "/chain", steps: r.Steps,
			fills: func(key string) bool { return slices.Contains(entry.Properties(), key) }}, r.Return)
		c.signatures, c.warnings = signatures, c.warnings[:warnings]
	}
	if len(faults.list) > 0 {
		first := faults.list[0]
		c.fault(first.Code, at, "the saved chain %s cannot be used: at %s of it, %s", spec.Name,
			strings.TrimPrefix(first.At, p.at+"/chain"), first.Message)
		p.inline = nil
		return
	}
	p.saved = entry
	p.effect, p.repeatable = p.inline.effect()
	p.common = c.commonFor(entry, s.Args)
	l.values.result = p.inline.origin
}

// nestingFault is the fault for a saved chain that calls itself, or is nested too deep; nil: it is neither.
func (c *compiler) nestingFault(name string) *fault.Error {
	if at := slices.Index(c.saved, name); at >= 0 {
		return fault.New(fault.BadRequest, "saved chains call each other in a cycle: %s",
			strings.Join(append(slices.Clone(c.saved[at:]), name), " → "))
	}
	if len(c.saved) == steps.MaxSavedDepth {
		return fault.New(fault.LimitExceeded, "saved chains nest deeper than %d", steps.MaxSavedDepth)
	}
	return nil
}

// savedName returns the name of the saved chain that is the plan's only step, or "".
func (p *plan) savedName() string {
	if len(p.steps) != 1 || p.steps[0].saved == nil {
		return ""
	}
	return p.steps[0].name()
}
