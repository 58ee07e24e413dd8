package groups

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
)

// Help is a request for help on a whole dispatcher, on a resource with those below it, or on one action. The zero value requests
// help on the whole dispatcher.
type Help struct {
	Schema bool // include complete schemas
	Again  bool // include signatures that were already given in this session

	scope []*function // nil: all
}

// isHelp reports whether an action always asks for help. To call a function with that name, `action` contains its resource too.
func isHelp(action string) bool { return strings.EqualFold(action, "help") }

// asksHelp reports whether the call asks for help: it has no action, the action help, or the action explain if no function has that action.
func (r *reader) asksHelp() bool {
	return r.action == "" || isHelp(r.action) || r.explains()
}

func (r *reader) explains() bool {
	return strings.EqualFold(r.action, "explain") && len(r.d.index().find(r.resource, r.action)) == 0
}

// help reads the subject of the help: `resource`, or a resource and an action in params. The resource may contain the action, and the
// action may contain its resource. It returns nil, after adding a fault, if the call has arguments but no action.
func (r *reader) help() *Request {
	if r.action == "" && r.lacksAction() {
		return nil
	}
	request := &Request{Help: &Help{}, Lite: r.lite, MaxTotalTokens: r.budget()}
	target := helpTarget{resource: r.resource, resourceAt: "/resource"}
	for _, m := range r.flat {
		r.helpField(request, nil, m, "")
	}
	for _, m := range members(r.params) {
		r.helpField(request, &target, m, "/params")
	}
	if r.verify {
		r.Fault(fault.BadRequest, "/verify", "verify is for calls, not for help")
	}
	if len(r.Faults.List) > 0 || target.resource == "" && target.action == "" {
		return request
	}
	if request.Help.scope = r.d.index().scope(target.resource, target.action); len(request.Help.scope) == 0 {
		f := r.d.unknown(target.resource, target.action)
		if f.At == "/action" {
			f.At = "/params/action"
		} else {
			f.At = target.resourceAt
		}
		r.Faults.Add(f)
	}
	return request
}

// helpTarget is the resource and the action that help is about.
type helpTarget struct{ resource, action, resourceAt string }

// helpField reads a member of a help request at the position at. target is nil if only flags are allowed.
func (r *reader) helpField(request *Request, target *helpTarget, m member, at string) {
	pointer := fault.Key(at, m.name)
	null := m.value.Type == gjson.Null
	switch {
	case m.name == "schema" || m.name == "again" || m.name == "lite" && target != nil:
		if null {
			return
		}
		b := r.Boolean(m.value, pointer)
		switch {
		case m.name == "lite" && request.Lite == nil:
			request.Lite = b
		case m.name == "schema":
			request.Help.Schema = b != nil && *b
		case m.name == "again":
			request.Help.Again = b != nil && *b
		}
	case target != nil && m.name == "action":
		if !null {
			target.action = r.text(m.value, pointer)
		}
	case target != nil && m.name == "resource":
		switch {
		case null:
		case target.resource != "":
			r.Fault(fault.BadRequest, pointer, "resource is given here and at the top: give it once")
		default:
			target.resource, target.resourceAt = r.text(m.value, pointer), pointer
		}
	default:
		known := slices.Concat([]string{"resource", "action"}, helpFields, []string{"lite", budgetField})
		r.Faults.Add(decode.Unknown("field", m.name, at, known))
	}
}

// lacksAction reports whether a call has arguments but no action, and adds a fault, because help would ignore the arguments.
func (r *reader) lacksAction() bool {
	isArgument := func(m member) bool { return m.name != budgetField && !slices.Contains(helpFields, m.name) }
	if len(members(r.params)) == 0 && !slices.ContainsFunc(r.flat, isArgument) {
		return false
	}
	functions := r.d.functions
	if r.resource != "" {
		if functions = r.d.index().below(r.resource); len(functions) == 0 {
			r.Faults.Add(r.d.unknown(r.resource, ""))
			return true
		}
	}
	actions := actionsIn(functions)
	f := fault.New(fault.BadRequest, `action is missing: {"action":"help"} lists all`)
	if f.Available = actions[:min(len(actions), maxListed)]; r.resource != "" {
		f.Message = "action is missing: " + fault.Quote(r.resource) + " has " + joinFirst(actions)
	}
	r.Faults.Add(f)
	return true
}

// scope returns the functions that help is about; none if nothing matches. What is given as the resource may be an action, and what is
// given as the action may be the last part of a resource.
func (x *index) scope(resource, action string) []*function {
	if action == "" {
		if functions := x.below(resource); len(functions) > 0 {
			return functions
		}
		return x.find("", resource)
	}
	if functions := x.find(resource, action); len(functions) > 0 {
		return functions
	}
	return x.below(dotted(resource, action))
}
