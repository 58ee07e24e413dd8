package exprs

import (
	"encoding/json"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// checkExpression is the Check of expr.eval: it compiles the expression before the chain runs. It returns nil if the expression is not
// known yet, or if the arguments cannot be decoded: the call then reports what is wrong.
func checkExpression(args []byte, known func(at string) bool) *fault.Error {
	var a struct {
		Expression string
		Vars       map[string]json.RawMessage
	}
	if err := json.Unmarshal(args, &a); err != nil || !known("/expression") {
		return nil //nolint:nilerr // the schema accepts the arguments; the call reports what cannot be decoded
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

// checkPattern is the Check of text.match and text.replace: it checks the pattern before the chain runs. It returns nil in the same
// cases as checkExpression.
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
