package plan

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// SavedRequest decodes a saved chain. The request is nil if compact is not an object, which is a fault.
func (q *RequestRules) SavedRequest(compact []byte) (*Request, *decode.Faults) {
	withJournal := *q
	withJournal.HasJournal = true
	d := &decoder{RequestRules: &withJournal}
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		d.Faults.Add(notAChain(root))
		return nil, &d.Faults
	}
	return d.DecodeChain(root), &d.Faults
}

// CollectFunctions adds the functions that steps call, and those that their undo calls, including inline chains, each once.
func CollectFunctions(list []StepRequest, functions, undoes []string) (_, _ []string) {
	for i := range list {
		s := &list[i]
		if s.Fn != "" && !slices.Contains(functions, s.Fn) {
			functions = append(functions, s.Fn)
		}
		if s.Undo != nil && !slices.Contains(undoes, s.Undo.Fn) {
			undoes = append(undoes, s.Undo.Fn)
		}
		if s.Chain != nil {
			functions, undoes = CollectFunctions(s.Chain.Steps, functions, undoes)
		}
	}
	return functions, undoes
}

// InputSchema returns the input schema of a saved chain, and the defaults of its members.
func (r *Request) InputSchema() (schema, defaults []byte) {
	properties, values := rawjson.NewTable(r.Params), rawjson.NewTable(r.Input)
	for _, value := range values.List {
		if !properties.Has(value.Name) {
			properties.Set(value.Name, "{}")
		}
	}
	var required []byte
	for _, param := range properties.List {
		value := gjson.Get(param.Raw, "default")
		switch {
		case values.Has(param.Name):
		case value.Exists():
			values.Set(param.Name, value.Raw)
		default:
			required = rawjson.AppendQuote(append(required, ','), param.Name)
		}
	}
	schema = rawjson.AppendObject([]byte(`{"type":"object","properties":`), properties.List)
	if required != nil {
		schema = append(append(append(schema, `,"required":[`...), required[1:]...), ']')
	}
	return append(schema, `,"additionalProperties":false}`...), rawjson.AppendObject(nil, values.List)
}

// compileSaved compiles a saved chain in place of the step that names it: with its own onError, common and return, and with the functions
// of the caller.
func (c *compiler) compileSaved(l *level, s *StepRequest, p *Step, entry *steps.Entry) {
	spec, at := entry.Spec(), p.FnAt()
	if f := c.nestingFault(spec.Name); f != nil {
		c.faults.Add(f.Under(at))
		return
	}
	r, faults := c.rules.Requests.SavedRequest(spec.Saved.Text)
	if len(faults.List) == 0 {
		c.lower(r.Budget)
		inner := newCompiler(c.compilation, r, faults)
		inner.saved = append(slices.Clone(c.saved), spec.Name)
		// What the saved chain adds to the signatures and warnings is dropped again; its steps count.
		signatures, warnings, view := c.Signatures, len(c.Warnings), c.view
		c.Signatures = nil
		if beneath := view.Beneath(); beneath != nil {
			c.view = beneath
		}
		p.Inline = inner.compileLevel(&level{at: p.At + "/chain", steps: r.Steps, state: l.state,
			fills: func(key string) bool { return slices.Contains(entry.Properties(), key) }}, r.Return)
		c.Signatures, c.Warnings, c.view = signatures, c.Warnings[:warnings], view
	}
	if len(faults.List) > 0 {
		first := faults.List[0]
		c.fault(first.Code, at, "the saved chain %s cannot be used: at %s of it, %s", spec.Name,
			strings.TrimPrefix(first.At, p.At+"/chain"), first.Message)
		p.Inline = nil
		return
	}
	p.Saved, p.Inner = entry, len(p.Inline.Steps)
	p.Effect, p.Repeatable = p.Inline.Effect()
	p.Common = c.commonFor(entry, s.Args)
	l.values.result = p.Inline.origin
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

// SavedName returns the name of the saved chain that is the plan's only step, or "".
func (p *Plan) SavedName() string {
	if len(p.Steps) != 1 || p.Steps[0].Saved == nil {
		return ""
	}
	return p.Steps[0].Name()
}
