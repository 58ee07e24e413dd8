package plan

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// unsigned are the fields of a saved chain that a signature does not cover, since they do nothing.
var unsigned = []string{"$schema", "description"}

// SignedForm returns what a signature of a saved chain signs: the chain and each that it calls, by name and in one spelling. saved returns
// a chain by the name of its function; nil: that function is no saved chain.
func SignedForm(name string, saved func(name string) *steps.SavedChain) ([]byte, *fault.Error) {
	f := &signedForm{saved: saved, added: map[string]bool{}}
	if root := saved(name); root != nil {
		f.w.B = make([]byte, 0, 2*len(root.Text)+100)
	}
	f.w.Open('{')
	f.w.Text("plan", name)
	f.w.OpenMember("chains", '{')
	if fault := f.add(name); fault != nil {
		return nil, fault
	}
	f.w.Close('}')
	f.w.Close('}')
	form, err := rawjson.AppendCanonical(make([]byte, 0, len(f.w.B)), f.w.B)
	switch {
	case err != nil:
		return nil, fault.New(fault.BadRequest, "%s cannot be signed: %v", name, err)
	case bytes.Contains(form, []byte("$state")):
		return nil, fault.New(fault.NotSupported, "%s cannot be signed: it reads $state, which differs from caller to caller. Take the value as "+
			"a param", name)
	}
	return form, nil
}

type signedForm struct {
	w     rawjson.Writer
	saved func(name string) *steps.SavedChain
	added map[string]bool
}

// add adds a chain, and those that it calls.
func (f *signedForm) add(name string) *fault.Error {
	if f.added[name] {
		return nil
	}
	f.added[name] = true
	chain := f.saved(name)
	if chain == nil {
		return fault.New(fault.UnknownFunction, "there is no saved chain %s, or it cannot be read", name)
	}
	text := rawjson.NewTable(Canonical(chain.Text))
	if len(f.added) == 1 {
		if bad := openInput(text); bad != "" {
			return fault.New(fault.NotSupported, "%s cannot be signed: whoever calls it could set %s, which is in input and not in params. "+
				"Declare it in params, or write its value where it is used", name, fault.Quote(bad))
		}
	}
	for _, field := range unsigned {
		text.Remove(field)
	}
	f.w.Raw(name, rawjson.AppendObject(nil, text.List))
	for _, called := range slices.Concat(chain.Names, chain.Undoes) {
		if !strings.HasPrefix(called, steps.ChainSource+".") {
			continue
		}
		if bad := f.add(called); bad != nil {
			return bad
		}
	}
	return nil
}

// openInput returns a member of a chain's input that its params do not declare, so that any value would be accepted; "": there is none.
func openInput(chain *rawjson.Table) string {
	params := rawjson.NewTable([]byte(chain.Get("params")))
	for _, member := range rawjson.NewTable([]byte(chain.Get("input"))).List {
		if !params.Has(member.Name) {
			return member.Name
		}
	}
	return ""
}

// planCallFields are the fields that may stand beside the call of a signed chain: they say how it is answered.
var planCallFields = []string{"steps", "lite", "format", "verify", "trace", "ifChanged", "async", "asyncAfterMs", "$schema"}

// CheckPlanCall checks a request of a caller who may only call signed chains: it must be one call, with nothing that changes what is done,
// or continue a run of such a call as it is.
func CheckPlanCall(request gjson.Result) (bad *fault.Error) {
	allowed, what := planCallFields, "beside the call of a plan"
	if resume := request.Get("resume"); resume.Exists() && resume.Type != gjson.Null {
		allowed, what = []string{"resume", "approve"}, "with resume"
	}
	request.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		switch {
		case v.Type == gjson.Null, slices.Contains(allowed, name):
		case name == "budget" && what != "with resume":
			v.ForEach(func(limit, _ gjson.Result) bool {
				if limit.String() != "maxTotalTokens" {
					bad = planFault(fault.Key("/budget", limit.String()), "beside the call of a plan, budget may only have maxTotalTokens")
				}
				return bad == nil
			})
		default:
			bad = planFault(fault.Key("", name), "%s, %s is not accepted", what, fault.Quote(fault.ClipRunes(name, 60)))
		}
		return bad == nil
	})
	list := request.Get("steps")
	if bad != nil || what == "with resume" || !list.IsArray() {
		return bad
	}
	if n := len(list.Array()); n != 1 {
		return planFault("/steps", "steps has %d steps, and may have one, which calls a plan", n)
	}
	return checkPlanStep(list.Array()[0])
}

func planFault(at, format string, args ...any) *fault.Error {
	f := fault.New(fault.Denied, format, args...).Under(at)
	f.Message += `: this caller may only call signed plans, as {"steps":[{"fn":"chain.NAME","args":{…}}]}`
	return f
}

// checkPlanStep checks the only step of such a request: a function and literal arguments.
func checkPlanStep(step gjson.Result) (bad *fault.Error) {
	const at = "/steps/0"
	var args gjson.Result
	argsAt, calls := "", 0
	step.ForEach(func(key, v gjson.Result) bool {
		switch name := key.String(); {
		case v.Type == gjson.Null:
		case name == "fn":
			calls++
		case name == "args":
			args, argsAt = v, at+"/args"
		case stepTable.Field(name) == nil && v.IsObject():
			args, argsAt = v, fault.Key(at, name)
			calls++
		default:
			bad = planFault(fault.Key(at, name), "beside fn and args, %s is not accepted", fault.Quote(fault.ClipRunes(name, 60)))
		}
		return bad == nil
	})
	switch {
	case bad != nil || !args.Exists():
		return bad
	case calls != 1:
		return planFault(at, "a step calls one function")
	}
	t, faults := refs.CompileTemplate([]byte(args.Raw), refs.CompileScope{At: argsAt, Steps: 1, State: true,
		Input: func(string) bool { return true }})
	if len(faults) > 0 {
		return planFault(cmp.Or(faults[0].At, argsAt), "an argument is a value, and no reference")
	}
	if uses := t.Uses(); len(uses) > 0 {
		return planFault(uses[0].At, "an argument is a value, and no reference")
	}
	return nil
}
