package groups

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Help is a request for help: on a whole dispatcher, on a resource with those below it, or on one action. The zero value is
// the whole dispatcher.
type Help struct {
	Schema bool // include complete schemas
	Again  bool // include signatures that were already given in this session

	scope []*function // nil: all
}

// isHelp reports whether an action always asks for help. A function of that name is called by its resource and name in
// `action`.
func isHelp(action string) bool { return strings.EqualFold(action, "help") }

// asksHelp reports whether the call asks for help: by no action, by help, or by explain if that is no function's action.
func (r *reader) asksHelp() bool {
	return r.action == "" || isHelp(r.action) || r.explains()
}

func (r *reader) explains() bool {
	return strings.EqualFold(r.action, "explain") && len(r.d.index().find(r.resource, r.action)) == 0
}

// help reads what to explain: `resource`, and in params a resource and an action. A resource may be followed by an action,
// and an action preceded by its resource.
func (r *reader) help() *Request {
	if r.action == "" && r.lacksAction() {
		return nil
	}
	request := &Request{Help: &Help{}, Lite: r.lite, MaxTotalTokens: r.budget()}
	narrow := helpTarget{resource: r.resource, resourceAt: "/resource"}
	for _, m := range r.flat {
		r.helpField(request, nil, m, "")
	}
	for _, m := range members(r.params) {
		r.helpField(request, &narrow, m, "/params")
	}
	if r.verify {
		r.fault(fault.BadRequest, "/verify", "verify stands beside a call, not beside help")
	}
	if len(r.faults) > 0 || narrow.resource == "" && narrow.action == "" {
		return request
	}
	if request.Help.scope = r.d.index().scope(narrow.resource, narrow.action); len(request.Help.scope) == 0 {
		f := r.d.unknown(narrow.resource, narrow.action)
		if f.At == "/action" {
			f.At = "/params/action"
		} else {
			f.At = narrow.resourceAt
		}
		r.faults = append(r.faults, f)
	}
	return request
}

// helpTarget is what help is requested on.
type helpTarget struct{ resource, action, resourceAt string }

// helpField reads a member of a help request below the position at; narrow is nil if only flags are allowed.
func (r *reader) helpField(request *Request, narrow *helpTarget, m member, at string) {
	place := fault.Key(at, m.name)
	null := m.value.Type == gjson.Null
	switch {
	case m.name == "schema" || m.name == "again" || m.name == "lite" && narrow != nil:
		if null {
			return
		}
		b := r.boolean(m.value, place)
		switch {
		case m.name == "lite" && request.Lite == nil:
			request.Lite = b
		case m.name == "schema":
			request.Help.Schema = b != nil && *b
		case m.name == "again":
			request.Help.Again = b != nil && *b
		}
	case narrow != nil && m.name == "action":
		if !null {
			narrow.action = r.text(m.value, place)
		}
	case narrow != nil && m.name == "resource":
		switch {
		case null:
		case narrow.resource != "":
			r.fault(fault.BadRequest, place, "resource stands here and at the top: give it once")
		default:
			narrow.resource, narrow.resourceAt = r.text(m.value, place), place
		}
	default:
		known := slices.Concat([]string{"resource", "action"}, helpFields, []string{"lite", budgetField})
		f := fault.New(fault.UnknownField, "help takes no %s: it takes %s", fault.Quote(m.name), strings.Join(known, ", "))
		f.At, f.Available, f.Nearest = place, known, fault.Nearest(m.name, known, 1)
		r.faults = append(r.faults, f)
	}
}

// lacksAction refuses a call with arguments and no action: help as an answer would drop them.
func (r *reader) lacksAction() bool {
	isArgument := func(m member) bool { return m.name != budgetField && !slices.Contains(helpFields, m.name) }
	if len(members(r.params)) == 0 && !slices.ContainsFunc(r.flat, isArgument) {
		return false
	}
	of := r.d.functions
	if r.resource != "" {
		if of = r.d.index().below(r.resource); len(of) == 0 {
			r.faults = append(r.faults, r.d.unknown(r.resource, ""))
			return true
		}
	}
	actions := actionsIn(of)
	f := fault.New(fault.BadRequest, `action is missing: {"action":"help"} lists all`)
	if f.Available = actions[:min(len(actions), maxListed)]; r.resource != "" {
		f.Message = "action is missing: " + fault.Quote(r.resource) + " has " + joinFirst(actions)
	}
	r.faults = append(r.faults, f)
	return true
}

// scope returns the functions that help is requested on.
func (x *index) scope(resource, action string) []*function {
	if action == "" {
		if found := x.below(resource); len(found) > 0 {
			return found
		}
		return x.find("", resource)
	}
	if found := x.find(resource, action); len(found) > 0 {
		return found
	}
	return x.below(dotted(resource, action))
}
