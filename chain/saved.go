package chain

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/rawjson"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Saved returns a saved chain as a function: its params are the input schema, and the values of its input are defaults. If there are
// faults, the function is nil. o has the options of the engine that will run the chain. Their Functions are not used, so whether the chain
// is valid does not depend on the sources that are available now. The faults in the chain have their lines and columns in text.
func Saved(name string, text []byte, o *Options) (*steps.Function, []*fault.Error) {
	options := *o
	options.Functions, options.Journal, options.Observer, options.Planned, options.Rung = &steps.Registry{}, nil, nil, nil, nil
	e, err := New(&options)
	if err != nil {
		f, _ := fault.As(err)
		return nil, []*fault.Error{f}
	}
	compact, f := compactJSON(text, e.o.MaxRequestBytes)
	if f != nil {
		return nil, []*fault.Error{f}
	}
	requests := e.o.requestRules()
	r, faults := requests.savedRequest(compact)
	if len(faults.list) > 0 {
		Locate(text, faults.list)
		return nil, faults.list
	}
	saved := &steps.SavedChain{Text: compact, Tool: r.Tool, Prompt: r.Prompt}
	saved.Names, saved.Undoes = collectFunctions(r.Steps, nil, nil)
	if faults := e.checkSaved(text, saved); len(faults) > 0 {
		return nil, faults
	}
	schema, defaults := r.schema()
	return &steps.Function{Call: callSaved,
		Spec: steps.Spec{Name: steps.ChainSource + "." + name, Description: cmp.Or(r.Description, r.Name),
			Input: schema, Defaults: defaults, Saved: saved}}, nil
}

// callSaved is the Call of a saved chain, whose steps an engine runs.
func callSaved(context.Context, []byte) ([]byte, error) {
	return nil, fault.New(fault.NotSupported, "a saved chain is called by steps of chains, and as a tool")
}

// savedRequest decodes a saved chain. The request is nil if compact is not an object, which is a fault.
func (q *requestRules) savedRequest(compact []byte) (*request, *faultList) {
	d := q.decoder()
	d.hasJournal = true
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

// checkSaved compiles a chain with functions that accept and return anything.
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

// undoSaved undoes what a failed saved chain has written, if its onError says so.
func (r *run) undoSaved(ctx context.Context, p *plannedStep, frame *inlineFrame, f *fault.Error) *fault.Error {
	if p.inline.onError != onErrorUndo || f.Code == fault.ResumeConflict || r.record == nil || r.rehearsal || r.approvalStopped.Load() ||
		r.isSuspended() {
		return f
	}
	return r.undoCalls(ctx, formatPath(frame.path())+".").addTo(f)
}
