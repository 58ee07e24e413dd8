package groups

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

const tokenField = "continuation_token"

// token reports whether the call contains a continuation token of onecall, and whether it is in params. Without one the
// fields of a fetch are ordinary arguments.
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

// fetch collects the fields of a fetch; fields at the top count even if params has them too. The rest of the call repeats
// the earlier call and is ignored, except for steps and, if neither resource nor action names the earlier call, all other
// fields: they are kept so that they are refused where fetches are answered.
func (r *reader) fetch(inParams bool) *Request {
	_, hasResource := find(r.top, "resource")
	_, hasAction := find(r.top, "action")
	again := hasResource || hasAction
	ofFetch := func(m member) bool { return slices.Contains(fetchFields, m.name) }
	var beside []member
	for _, m := range r.top {
		isOfCall := again || slices.Contains(callFields, m.name) || slices.Contains(r.d.hoist, m.name)
		if ofFetch(m) || m.name == "steps" || !isOfCall {
			beside = append(beside, m)
		}
	}
	if !inParams {
		return &Request{Fetch: object(beside)}
	}
	var inside []member
	for _, m := range members(r.params) {
		_, above := find(beside, m.name)
		if m.name == tokenField || !above && (ofFetch(m) || !again) {
			inside = append(inside, m)
		}
	}
	for _, m := range beside {
		if m.name != tokenField && m.value.Type != gjson.Null {
			inside = append(inside, m)
		}
	}
	return &Request{Fetch: append(append([]byte(`{"params":`), object(inside)...), '}')}
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
