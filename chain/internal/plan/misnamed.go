package plan

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Names that other formats use for fn and args.
var (
	likeFn = []string{"tool", "tool_name", "toolName", "name", "function", "function_name", "functionName", "func", "call", "action",
		"method"}
	likeArgs = []string{"arguments", "params", "parameters", "input", "inputs"}
)

// isLikeField reports whether other formats use a name for fn or args.
func isLikeField(name string) bool {
	return slices.Contains(likeFn, name) || slices.Contains(likeArgs, name)
}

// maxShownArgs is how many characters a fault repeats of a step's fn, and of its args.
const maxShownArgs = 300

// misnamedFault is the fault for a step whose fn or args has another name. It shows the corrected step. nil: the step has no
// such field, or it has neither fn, under any name, nor expr or chain.
func misnamedFault(step gjson.Result, at string) *fault.Error {
	fn, args := step.Get("fn"), step.Get("args")
	hasKind := fn.Exists() || step.Get("expr").Exists() || step.Get("chain").Exists()
	hasArgs := args.Exists()
	var wrong []string
	step.ForEach(func(key, v gjson.Result) bool {
		switch {
		case !hasKind && !fn.Exists() && v.Type == gjson.String && slices.Contains(likeFn, key.Str):
			fn, wrong = v, append(wrong, key.Str)
		case !hasArgs && !args.Exists() && v.IsObject() && slices.Contains(likeArgs, key.Str):
			args, wrong = v, append(wrong, key.Str)
		}
		return true
	})
	if len(wrong) == 0 || !hasKind && !fn.Exists() {
		return nil
	}
	example := ""
	if fn.Exists() {
		example = `"fn":` + fault.ClipRunes(fn.Raw, maxShownArgs) + ","
	}
	if args.Exists() {
		example += `"args":` + fault.ClipRunes(args.Raw, maxShownArgs)
	}
	f := fault.New(fault.UnknownField, "a step has no %s: write {%s}", strings.Join(wrong, " and no "),
		strings.TrimSuffix(example, ",")).Under(at)
	f.Available = stepTable.Names
	return f
}
