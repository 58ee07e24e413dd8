package chain

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Saved makes the function that a chain is when it is saved under a name: params are its input schema, and values of its input are
// defaults. o are the options of the engine that will run it; its Functions are not asked, so that a chain is right or wrong whatever
// sources are there. The faults have their lines and columns in text.
func Saved(name string, text []byte, o *Options) (*steps.Function, []*fault.Error) {
	own := *o
	own.Functions, own.Journal, own.Observer, own.Planned, own.Rung = &steps.Registry{}, nil, nil, nil, nil
	e, err := New(&own)
	if err != nil {
		f, _ := fault.As(err)
		return nil, []*fault.Error{f}
	}
	compact, f := compactJSON(text, e.o.MaxRequestBytes)
	if f != nil {
		return nil, []*fault.Error{f}
	}
	r, faults := e.savedRequest(compact)
	if len(faults.list) > 0 {
		Locate(text, faults.list)
		return nil, faults.list
	}
	saved := &steps.SavedChain{Text: compact, Tool: r.Tool, Prompt: r.Prompt}
	saved.Names, saved.Undoes = named(r.Steps, nil, nil)
	if faults := e.checkSaved(text, saved); len(faults) > 0 {
		return nil, faults
	}
	schema, defaults := r.schema()
	return &steps.Function{Call: callSaved, Spec: steps.Spec{Name: steps.ChainSource + "." + name, Description: cmp.Or(r.Description, r.Name),
		Input: schema, Defaults: defaults, Saved: saved}}, nil
}

// callSaved stands for the call of a saved chain, whose steps an engine runs.
func callSaved(context.Context, []byte) ([]byte, error) {
	return nil, fault.New(fault.NotSupported, "a saved chain is called by steps of chains, and as a tool")
}

// savedRequest decodes a saved chain.
func (e *Engine) savedRequest(compact []byte) (*request, *faultList) {
	d := &decoder{maxSteps: e.o.MaxSteps, hoisted: e.o.Hoist, topFields: e.o.topFields, remembers: true}
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		d.fault(fault.BadRequest, "", "a chain is a JSON object, {\"steps\":[…]}, not %s", kindOf(root))
		return nil, &d.faults
	}
	return d.chain(root), &d.faults
}

// named are the functions that steps call and that their undo calls, those of inline chains too, each once.
func named(list []step, functions, undoes []string) (_, _ []string) {
	for i := range list {
		s := &list[i]
		if s.Fn != "" && !slices.Contains(functions, s.Fn) {
			functions = append(functions, s.Fn)
		}
		if s.Undo != nil && !slices.Contains(undoes, s.Undo.Fn) {
			undoes = append(undoes, s.Undo.Fn)
		}
		if s.Chain != nil {
			functions, undoes = named(s.Chain.Steps, functions, undoes)
		}
	}
	return functions, undoes
}

// checkSaved compiles a chain over functions that take and give anything.
func (e *Engine) checkSaved(text []byte, saved *steps.SavedChain) []*fault.Error {
	var stubs []steps.Function
	known := map[string]bool{}
	for _, name := range append(slices.Clone(saved.Names), saved.Undoes...) {
		if !known[name] {
			known[name] = true
			stubs = append(stubs, steps.Function{Spec: steps.Spec{Name: name, Effect: steps.Read}, Call: notCalled})
		}
	}
	registry, err := steps.NewRegistry(stubs, nil)
	if err != nil {
		f, _ := fault.As(err)
		return []*fault.Error{f}
	}
	standard := false
	return e.Run(context.Background(), text, &Caller{Functions: registry, Override: Override{Check: true, Lite: &standard}}).Faults
}

// schema is the input schema of a saved chain, and the values of what a call does not give.
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
			required = appendString(append(required, ','), param.name)
		}
	}
	schema = appendObject([]byte(`{"type":"object","properties":`), properties.list)
	if required != nil {
		schema = append(append(append(schema, `,"required":[`...), required[1:]...), ']')
	}
	return append(schema, `,"additionalProperties":false}`...), appendObject(nil, values.list)
}

// savedChain compiles the steps of a saved chain in the place of the step that names it: with its own onError, common and return, and
// with the functions of the caller.
func (c *compiler) savedChain(l *level, s *step, p *plannedStep, entry *steps.Entry) {
	spec, at := entry.Spec(), p.at+"/fn"
	if f := c.tooDeep(spec.Name); f != nil {
		c.faults.add(f.Under(at))
		return
	}
	r, faults := (&Engine{o: *c.o}).savedRequest(spec.Saved.Text)
	if len(faults.list) == 0 {
		c.lowerTo(r.Budget)
		own := &compiler{exchange: c.exchange, request: r, saved: append(slices.Clone(c.saved), spec.Name), usedCommon: map[string]bool{},
			common: members(r.Common), onError: cmp.Or(r.OnError, onErrorStop), total: c.total, faults: faults}
		taught, warned := c.teaching, len(c.warnings)
		c.teaching = nil
		p.inline = own.chain(&level{at: p.at + "/chain", steps: r.Steps, fills: func(key string) bool { return slices.Contains(entry.Properties(), key) }}, r.Return)
		c.teaching, c.warnings, c.total = taught, c.warnings[:warned], own.total
	}
	if len(faults.list) > 0 {
		first := faults.list[0]
		c.fault(first.Code, at, "the saved chain %s cannot be used: at %s of it, %s", spec.Name, strings.TrimPrefix(first.At, p.at+"/chain"), first.Message)
		p.inline = nil
		return
	}
	p.saved = entry
	p.effect, p.repeatable = p.inline.effect()
	p.common = c.commonFor(entry, s.Args)
	l.own.result = p.inline.gives
}

// tooDeep is the fault for a saved chain that calls itself, or stands in too many others; nil: it does not.
func (c *compiler) tooDeep(name string) *fault.Error {
	if at := slices.Index(c.saved, name); at >= 0 {
		return fault.New(fault.BadRequest, "saved chains call each other in a cycle: %s", strings.Join(append(slices.Clone(c.saved[at:]), name), " → "))
	}
	if len(c.saved) == steps.MaxSavedDepth {
		return fault.New(fault.LimitExceeded, "saved chains nest deeper than %d", steps.MaxSavedDepth)
	}
	return nil
}

// lowerTo lowers the bounds of the request to those of a saved chain that it calls.
func (s *exchange) lowerTo(b *budgetRequest) {
	if b == nil {
		return
	}
	if limit := s.meter.Limit(); b.MaxTotalTokens != nil && limit > 0 && limit < *b.MaxTotalTokens {
		own := *b
		own.MaxTotalTokens, b = &limit, &own
	}
	lite, trace := s.lite, s.trace
	_ = s.apply(b, nil, "")
	s.lite, s.trace = lite, trace
}

// savedAlone is the name of the saved chain that is all of the plan; "": there is more, or none.
func (p *plan) savedAlone() string {
	if len(p.steps) != 1 || p.steps[0].saved == nil {
		return ""
	}
	return p.steps[0].name()
}

// undoSaved takes back what a saved chain has written that has failed, if its onError says so.
func (r *run) undoSaved(ctx context.Context, p *plannedStep, within *enclosing, f *fault.Error) *fault.Error {
	if p.inline.onError != onErrorUndo || f.Code == fault.ResumeConflict || r.record == nil || r.rehearsal || r.stopped.Load() {
		return f
	}
	return r.takeBack(ctx, placeOf(within.path())+".").told(f)
}
