package dispatch

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

const tokenField = "continuation_token"

// fetchFields are the fields of a fetch. Without a token of onecall they are arguments like any other.
var fetchFields = []string{tokenField, "mode", "page", "page_size", "filter_keys", "query", "budget"}

// token tells whether the call holds a continuation token of onecall, and whether it stands in params.
func (r *reader) token() (found, inParams bool) {
	isToken := func(v gjson.Result) bool {
		return v.Type == gjson.String && strings.HasPrefix(v.Str, budget.TokenPrefix)
	}
	if token, _ := find(r.top, tokenField); isToken(token) {
		return true, false
	}
	if r.hasParams {
		token, _ := find(members(r.params), tokenField)
		return isToken(token), true
	}
	return false, false
}

// fetch gathers the fields of a fetch. Resource, action and hoisted names only say what was called before; all else must be a
// field of a fetch, and is left in, so that it is refused where fetches are answered.
func (r *reader) fetch(inParams bool) *Request {
	var beside []member
	for _, m := range r.top {
		if !slices.Contains([]string{"resource", "action", "params"}, m.name) && !slices.Contains(r.d.hoist, m.name) {
			beside = append(beside, m)
		}
	}
	inside := members(r.params)
	if !inParams {
		if len(inside) > 0 {
			r.fault(fault.BadRequest, "/params", "params stands beside a continuation_token: a fetch takes %s alone, and calls nothing", strings.Join(fetchFields, ", "))
		}
		return &Request{Fetch: object(beside)}
	}
	for _, m := range beside {
		if slices.ContainsFunc(inside, func(i member) bool { return i.name == m.name }) {
			r.fault(fault.BadRequest, fault.Key("", m.name), "%s stands here and in params: give it once", quote(m.name))
		}
	}
	return &Request{Fetch: append(append([]byte(`{"params":`), object(append(inside, beside...))...), '}')}
}

// object writes members, their keys in one spelling, so that who reads them next finds them.
func object(all []member) []byte {
	text := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(appendString(text, m.name), ':'), m.value.Raw...)
	}
	return append(text, '}')
}
