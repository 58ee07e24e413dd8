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

// Verdict is the judgment of one call, with why.
type Verdict struct {
	Decision Decision
	Reason   string
}

// maxReasons is how many functions a reason tells of.
const maxReasons = 5

// Judge judges what a host is about to call, as it gives it to a hook: an object with tool_name and tool_input. What cannot be read is
// denied.
func (r *Rules) Judge(call []byte) Verdict {
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(call, &fields) != nil || json.Unmarshal(fields["tool_name"], &name) != nil || name == "" {
		return Verdict{Deny, "the hook got no call that it can read"}
	}
	whole, ours := strings.CutPrefix(name, "mcp__")
	if !ours { // of no MCP server
		return Verdict{}
	}
	input := fields["tool_input"]
	_, tool, _ := strings.Cut(whole, "__") // behind the server's name: mcp__onecall__chain
	if slices.Contains(own, tool) {
		return r.own(tool, input)
	}
	v := r.tool(tool, input)
	if i := strings.LastIndex(tool, "__"); i >= 0 && slices.Contains(own, tool[i+2:]) { // or the server's name holds __ too
		if other := r.own(tool[i+2:], input); other.Decision.stronger(v.Decision) || v.Decision == "" {
			v = other
		}
	}
	return v
}

// own are the tools that every surface has.
var own = []string{"chain_read", "chain", "search", "info"}

func (r *Rules) own(tool string, input []byte) Verdict {
	if tool == "search" || tool == "info" {
		return Verdict{}
	}
	return r.chain(input)
}

// chain judges a chain by all functions that it names: the strongest decision holds.
func (r *Rules) chain(text []byte) Verdict {
	mentioned, faults := chain.Mentions(text)
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
		decision, why := r.function(m.Function)
		add(decision, fmt.Sprintf("step %s names %s: %s", stepOf(m.At), fault.Clip(m.Function, 100), why))
	}
	if mentioned.Resumes {
		if decision, _ := r.unknown(); decision != Allow {
			add(Ask, "it goes on with an earlier run, whose functions it need not name")
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

// stepOf names a step by its place: 2 of /steps/2/fn, and 2.0 of /steps/2/chain/steps/0/undo/fn.
func stepOf(at string) string {
	var numbers []string
	for at != "" {
		_, rest, _ := strings.Cut(at[1:], "/") // steps, or replace
		number, rest, _ := strings.Cut(rest, "/")
		numbers = append(numbers, strings.NewReplacer("~1", "/", "~0", "~").Replace(number))
		var inline bool
		if at, inline = strings.CutPrefix("/"+rest, "/chain"); !inline {
			break
		}
	}
	return strings.Join(numbers, ".")
}

// unknown judges a function of which nothing is known.
func (r *Rules) unknown() (Decision, string) {
	if !r.guards() && first(r.Allow, "any.name", func(p, _ string) bool { return strings.Trim(p, "*") == "" }) != "" {
		return Allow, "all is allowed"
	}
	return Ask, "which function it calls is not known"
}

// tool judges a tool of another surface: a function's own, which the host's rules can name, or a dispatcher, behind which functions are.
func (r *Rules) tool(name string, input []byte) Verdict {
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
		if p := first(r.Deny, text, endFits); p != "" {
			return Verdict{Deny, fmt.Sprintf("%s: the rule %s denies it", text, p)}
		}
	}
	for _, text := range texts {
		if p := first(r.Ask, text, endFits); p != "" {
			return Verdict{Ask, fmt.Sprintf("%s: the rule %s asks", text, p)}
		}
	}
	call := strings.Join(slices.DeleteFunc([]string{name, resource, action}, func(part string) bool { return part == "" }), ".")
	switch p := first(append(append([]string{}, r.Deny...), r.Ask...), "", ofAnyName); {
	case dispatches && slices.Contains(r.Allow, call):
		return Verdict{Allow, "the rule " + call + " allows it"}
	case dispatches && action != "help":
		decision, why := r.unknown()
		return Verdict{decision, call + ": " + why}
	case p != "":
		return Verdict{Ask, fmt.Sprintf("%s may be a function of %s", name, p)}
	}
	return Verdict{}
}
