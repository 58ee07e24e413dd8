package chain

import "github.com/onecall-mcp/onecall/chain/internal/plan"

// FunctionUse is what a chain uses of a function.
type FunctionUse struct {
	Function string
	Calls    []CallUse
	// Reads are the paths in its result that references read and that must be there: names of members, and "*" for elements. They are known
	// of a function with an output schema, or a known shape of results.
	Reads [][]string
}

// CallUse is a step that calls a function, or one whose undo does.
type CallUse struct {
	Step  string // its JSON Pointer
	Given []Given
}

// Given is an argument that a call gives, or a value in one.
type Given struct {
	Path    []string // names of members, and "*" for elements
	Literal bool     // the value stands in the chain or in the configuration; else references make it
}

func usesOf(p *plan.Plan) (list []FunctionUse) {
	for _, use := range p.Uses() {
		f := FunctionUse{Function: use.Function, Reads: use.Reads}
		for _, call := range use.Calls {
			given := make([]Given, len(call.Given))
			for i, g := range call.Given {
				given[i] = Given(g)
			}
			f.Calls = append(f.Calls, CallUse{call.Step, given})
		}
		list = append(list, f)
	}
	return list
}
