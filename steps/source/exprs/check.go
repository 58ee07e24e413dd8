package exprs

import (
	"encoding/json"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// checkExpression compiles an expression of the chain before anything runs.
func checkExpression(args []byte, known func(at string) bool) *fault.Error {
	var a struct {
		Expression string
		Vars       map[string]json.RawMessage
	}
	if err := json.Unmarshal(args, &a); err != nil || !known("/expression") {
		return nil //nolint:nilerr // the schema accepts the arguments: what is not read here, the call will tell
	}
	var names []string
	if known("/vars") {
		names = make([]string, 0, len(a.Vars))
		for name := range a.Vars {
			names = append(names, name)
		}
	}
	f := refs.CheckFree(a.Expression, names)
	if f != nil {
		f = f.Under("/expression")
	}
	return f
}

// checkPattern checks a pattern of the chain before anything runs.
func checkPattern(args []byte, known func(at string) bool) *fault.Error {
	var a struct{ Pattern string }
	if err := json.Unmarshal(args, &a); err != nil || !known("/pattern") {
		return nil //nolint:nilerr // as above
	}
	f := refs.CheckPattern(a.Pattern)
	if f != nil {
		f.At = "/pattern"
	}
	return f
}
