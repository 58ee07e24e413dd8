package groups

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

const tokenField = "continuation_token"

// token reports whether the call contains a continuation token, and whether the token is in params. Without one, the fields of a fetch
// are ordinary arguments. Beside an action, which may declare such an argument, only a token of onecall counts.
func (r *reader) token() (ok, inParams bool) {
	isToken := func(v gjson.Result) bool {
		return v.Type == gjson.String && (strings.HasPrefix(v.Str, budget.TokenPrefix) || r.action == "" && v.Str != "")
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

// fetch collects the fields of a fetch. Fields at the top replace those in params. Other fields repeat the earlier call and are ignored,
// except for two kinds, which the reader of fetches then rejects: steps, and, if neither resource nor action names the earlier call, fields
// that are neither callFields nor hoisted.
func (r *reader) fetch(inParams bool) *Request {
	_, hasResource := find(r.top, "resource")
	_, hasAction := find(r.top, "action")
	namesCall := hasResource || hasAction
	ofFetch := func(m member) bool { return slices.Contains(fetchFields, m.name) }
	var fields []member
	for _, m := range r.top {
		isOfCall := namesCall || slices.Contains(callFields, m.name) || slices.Contains(r.d.hoist, m.name)
		if ofFetch(m) || m.name == "steps" || !isOfCall {
			fields = append(fields, m)
		}
	}
	if !inParams {
		return &Request{Fetch: object(fields)}
	}
	var params []member
	for _, m := range members(r.params) {
		_, inFields := find(fields, m.name)
		if m.name == tokenField || !inFields && (ofFetch(m) || !namesCall) {
			params = append(params, m)
		}
	}
	for _, m := range fields {
		if m.name != tokenField && m.value.Type != gjson.Null {
			params = append(params, m)
		}
	}
	return &Request{Fetch: append(append([]byte(`{"params":`), object(params)...), '}')}
}

// object encodes members with canonical keys, so that the next reader finds them.
func object(all []member) []byte {
	text := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(rawjson.AppendQuote(text, m.name), ':'), m.value.Raw...)
	}
	return append(text, '}')
}
