package hook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// Verdict is the decision about a call, with its reason.
type Verdict struct {
	Decision Decision
	Reason   string
}

// maxReasons is the maximum number of functions that a reason names.
const maxReasons = 5

// Judge decides about a call that a host is about to make. call is what hosts pass to hooks: an object with tool_name and tool_input. A
// call that cannot be read is denied.
func (r *Rules) Judge(call []byte) Verdict {
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(call, &fields) != nil || json.Unmarshal(fields["tool_name"], &name) != nil || name == "" {
		return Verdict{Deny, "the hook cannot read the call"}
	}
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok { // not a tool of an MCP server
		return Verdict{}
	}
	input := fields["tool_input"]
	_, tool, _ := strings.Cut(rest, "__") // what follows the server's name: mcp__onecall__chain
	if slices.Contains(builtinTools, tool) {
		return r.judgeBuiltin(tool, input)
	}
	v := r.judgeTool(tool, input)
	if i := strings.LastIndex(tool, "__"); i >= 0 && slices.Contains(builtinTools, tool[i+2:]) { // the server's name may contain __, too
		if other := r.judgeBuiltin(tool[i+2:], input); other.Decision.stronger(v.Decision) || v.Decision == "" {
			v = other
		}
	}
	return v
}

// builtinTools are onecall's own tools. Every surface has them; chain_read only if the configuration asks for it.
var builtinTools = []string{"chain_read", "chain", "search", "info"}

func (r *Rules) judgeBuiltin(tool string, input []byte) Verdict {
	if tool == "search" || tool == "info" {
		return Verdict{}
	}
	return r.judgeChain(input)
}

// judgeChain decides about a chain by the functions that it names. The strongest decision wins.
func (r *Rules) judgeChain(text []byte) Verdict {
	mentioned, faults := chain.FindMentions(text)
	if len(faults) > 0 {
		return Verdict{Deny, fmt.Sprintf("the chain cannot be read: %s (%s)", fault.Clip(faults[0].Message, 300), faults[0].At)}
	}
	var v Verdict
	var reasons []string
	add := func(decision Decision, why string) {
		if decision.stronger(v.Decision) {
			v.Decision, reasons = decision, nil
		}
		if decision == v.Decision {
			reasons = append(reasons, why)
		}
	}
	for _, m := range mentioned.Functions {
		decision, why := r.judgeFunction(m.Function)
		add(decision, fmt.Sprintf("step %s names %s: %s", stepOf(m.At), fault.Clip(m.Function, 100), why))
	}
	if mentioned.Resumes {
		if decision, _ := r.judgeUnknown(); decision != Allow {
			add(Ask, "it resumes an earlier run, whose functions it need not name")
		} else {
			add(Allow, "all is allowed")
		}
	}
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	v.Reason = strings.Join(reasons, "; ")
	return v
}

// stepOf returns the path of a step: 2 for /steps/2/fn, 2.0 for /steps/2/chain/steps/0/undo/fn.
func stepOf(at string) string {
	var numbers []string
	for at != "" {
		_, rest, _ := strings.Cut(at[1:], "/") // steps or replace
		number, rest, _ := strings.Cut(rest, "/")
		numbers = append(numbers, strings.NewReplacer("~1", "/", "~0", "~").Replace(number))
		var inline bool
		if at, inline = strings.CutPrefix("/"+rest, "/chain"); !inline {
			break
		}
	}
	return strings.Join(numbers, ".")
}

// judgeUnknown decides about a call whose function is not known.
func (r *Rules) judgeUnknown() (Decision, string) {
	// A pattern of stars alone allows all functions; the name "any.name" is not looked at.
	if !r.restricts() && firstMatch(r.Allow, "any.name", func(p, _ string) bool { return strings.Trim(p, "*") == "" }) != "" {
		return Allow, "all is allowed"
	}
	return Ask, "which function it calls is not known"
}

// judgeTool decides about a tool of another surface: a function's own tool, which the host's rules can name, or a dispatcher.
func (r *Rules) judgeTool(name string, input []byte) Verdict {
	root := gjson.ParseBytes(input)
	if !json.Valid(input) || !root.IsObject() {
		return Verdict{Deny, "the arguments of " + name + " cannot be read"}
	}
	texts := []string{name}
	field := func(name string) string { return strings.Trim(root.Get(name).String(), " ") } // as a dispatcher reads it
	resource, action := field("resource"), field("action")
	dispatches := action != ""
	if dispatches {
		texts = append(texts, resource+"."+action, action+"_"+resource)
	}
	for _, text := range texts {
		if p := firstMatch(r.Deny, text, matchesTail); p != "" {
			return Verdict{Deny, fmt.Sprintf("%s: the rule %s denies it", text, p)}
		}
	}
	for _, text := range texts {
		if p := firstMatch(r.Ask, text, matchesTail); p != "" {
			return Verdict{Ask, fmt.Sprintf("%s: the rule %s asks", text, p)}
		}
	}
	call := strings.Join(slices.DeleteFunc([]string{name, resource, action}, func(segment string) bool { return segment == "" }), ".")
	switch p := firstMatch(append(append([]string{}, r.Deny...), r.Ask...), "", matchesAnyName); {
	case dispatches && slices.Contains(r.Allow, call):
		return Verdict{Allow, "the rule " + call + " allows it"}
	case dispatches && action != "help":
		decision, why := r.judgeUnknown()
		return Verdict{decision, call + ": " + why}
	case p != "":
		return Verdict{Ask, fmt.Sprintf("%s may be a function of %s", name, p)}
	}
	return Verdict{}
}
