package chain

import (
	"cmp"
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
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
	compact, f := plan.CompactJSON(text, e.o.MaxRequestBytes)
	if f != nil {
		return nil, []*fault.Error{f}
	}
	requests := e.o.requestRules()
	r, faults := requests.SavedRequest(compact)
	if len(faults.List) > 0 {
		plan.Locate(text, faults.List)
		return nil, faults.List
	}
	saved := &steps.SavedChain{Text: []byte(r.Text), Tool: r.Tool, Prompt: r.Prompt}
	saved.Names, saved.Undoes = plan.CollectFunctions(r.Steps, nil, nil)
	if faults := e.checkSaved(text, saved); len(faults) > 0 {
		return nil, faults
	}
	schema, defaults := r.InputSchema()
	return &steps.Function{Call: callSaved,
		Spec: steps.Spec{Name: steps.ChainSource + "." + name, Description: cmp.Or(r.Description, r.Name),
			Input: schema, Defaults: defaults, Saved: saved}}, nil
}

// callSaved is the Call of a saved chain, whose steps an engine runs.
func callSaved(context.Context, []byte) ([]byte, error) {
	return nil, fault.New(fault.NotSupported, "a saved chain is called by steps of chains, and as a tool")
}

// checkSaved compiles a chain with functions that accept and return anything.
func (e *Engine) checkSaved(text []byte, saved *steps.SavedChain) []*fault.Error {
	var stubs []steps.Function
	known := map[string]bool{}
	for _, name := range append(slices.Clone(saved.Names), saved.Undoes...) {
		if !known[name] {
			known[name] = true
			stubs = append(stubs, steps.Function{Spec: steps.Spec{Name: name, Effect: steps.Read}, Call: plan.NotCalled})
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
