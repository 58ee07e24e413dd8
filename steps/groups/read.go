package groups

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Request is one call of a dispatcher. Exactly one of Help, Fetch and Entry is set.
type Request struct {
	Help *Help

	// Fetch requests more of an earlier large result: a JSON object with the continuation token and the other fields of a fetch, at
	// the top or in `params`. Fields that repeat the earlier call are dropped. Nothing runs. The reader of fetches checks the fields.
	Fetch json.RawMessage

	Entry *steps.Entry    // the function to call
	Args  json.RawMessage // a JSON object, not checked with the function's schema yet
	At    string          // the JSON Pointer of the arguments in the call: "/params" or ""

	// Unused are the hoisted names of a call, in its order, that the function does not declare. They are not in Args, even if the
	// function accepts arguments with any name, because its schema does not say what they would mean.
	Unused []string

	Lite           *bool // the field lite of a call or of help; nil: not given
	Verify         bool
	MaxTotalTokens int // the field maxTotalTokens of `budget`, of a call or of help; 0: not given

	Warnings []*fault.Error // text_as_json: params or budget was sent as a text of JSON, as some hosts do, and was read
}

// Read decodes the arguments of one call; no arguments count as {}. It returns all faults: bad_json alone, else bad_request for a
// wrong type or combination of fields, unknown_function for a missing resource or action, unknown_field for fields that help does
// not have. It does not check the arguments against the function's schema. Only resource and action select the function, not the
// arguments.
func (d *Dispatcher) Read(args []byte) (*Request, []*fault.Error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	compact, f := decode.Compact(args)
	if f != nil {
		return nil, []*fault.Error{f}
	}
	root := gjson.ParseBytes(compact)
	r := &reader{d: d}
	if root.Type == gjson.Null {
		root = gjson.Parse("{}")
	}
	if !root.IsObject() {
		r.WrongType("", "an object with resource, action and params", root)
		return nil, r.Faults.List
	}
	r.fields(root)
	request := r.request()
	if len(r.Faults.List) > 0 {
		return nil, r.Faults.List
	}
	request.Warnings = r.warnings
	return request, nil
}

// member is a member of an object. A null counts as absent if it is a field of the call.
type member struct {
	name, key string // key is the name as written, with its quotes
	value     gjson.Result
}

func members(object gjson.Result) []member {
	var all []member
	object.ForEach(func(key, value gjson.Result) bool {
		all = append(all, member{key.String(), key.Raw, value})
		return true
	})
	return all
}

func find(all []member, name string) (gjson.Result, bool) {
	for _, m := range all {
		if m.name == name && m.value.Type != gjson.Null {
			return m.value, true
		}
	}
	return gjson.Result{}, false
}

// reader reads one call.
type reader struct {
	decode.Reader
	d        *Dispatcher
	warnings []*fault.Error

	resource, action string
	invalidText      bool         // resource or action is not a string
	params           gjson.Result // an object if hasParams
	hasParams        bool
	lite             *bool
	verify           bool
	top              []member // all members
	flat             []member // members that are neither fields of a call nor hoisted
	hoisted          []member
}

// fields assigns the members of a call to the reader's fields.
func (r *reader) fields(root gjson.Result) {
	r.top = members(root)
	for _, m := range r.top {
		null := m.value.Type == gjson.Null
		switch {
		case slices.Contains(callFields, m.name):
			if !null {
				r.field(m)
			}
		case slices.Contains(r.d.hoist, m.name):
			if !null {
				r.hoisted = append(r.hoisted, m)
			}
		default:
			r.flat = append(r.flat, m)
		}
	}
}

func (r *reader) field(m member) {
	at := "/" + m.name
	switch m.name {
	case "resource":
		r.resource = r.text(m.value, at)
	case "action":
		r.action = r.text(m.value, at)
	case "lite":
		r.lite = r.Boolean(m.value, at)
	case "verify":
		b := r.Boolean(m.value, at)
		r.verify = b != nil && *b
	case "params":
		value, readable := r.readText(m.value, at)
		if !readable {
			return
		}
		if r.hasParams = value.IsObject(); !r.hasParams {
			kind := decode.Describe(value)
			if value.Type == gjson.String {
				kind = "a string" // it may contain something private
			}
			r.Fault(fault.BadRequest, at, "must be an object of arguments, not %s", kind)
			return
		}
		r.params = value
	}
}

// readText returns the object in a text of JSON, with a warning; any other value as it is. readable is false, with a fault, for a text that
// begins like an object and is not JSON.
func (r *reader) readText(v gjson.Result, at string) (value gjson.Result, readable bool) {
	if v.Type != gjson.String || !strings.HasPrefix(strings.TrimLeft(v.Str, " \t\r\n"), "{") {
		return v, true
	}
	compact, f := decode.Compact([]byte(v.Str))
	if f != nil {
		r.Fault(fault.BadJSON, at, "is a text, and the JSON in it cannot be read: %s", f.Message)
		return v, false
	}
	r.warnings = append(r.warnings, fault.New(fault.TextAsJSON,
		"was a string of JSON, and was read as the object in it: send the object itself").Under(at))
	return gjson.ParseBytes(compact), true
}

func (r *reader) text(v gjson.Result, at string) string {
	r.invalidText = r.invalidText || v.Type != gjson.String
	return strings.Trim(r.Text(v, at), " ")
}

// request returns the request that the fields make; nil if a fault leaves it undecided what the call requests.
func (r *reader) request() *Request {
	if token, inParams := r.token(); token {
		r.Faults = decode.Faults{} // they are about the earlier call
		return r.fetch(inParams)
	}
	if r.invalidText {
		return nil
	}
	if r.asksHelp() {
		return r.help()
	}
	f, unknown := r.d.choose(r.resource, r.action)
	if unknown != nil {
		r.Faults.Add(unknown)
		return nil
	}
	request := &Request{Entry: f.entry, Lite: r.lite, Verify: r.verify}
	if r.hasParams || !declares(f.entry, budgetField) { // otherwise `budget` is an argument of the function
		request.MaxTotalTokens = r.budget()
	}
	arguments := r.flat
	if r.hasParams {
		request.At, arguments = "/params", members(r.params)
		r.refuseFlat()
	} else {
		r.refuseAmbiguous(f.entry)
	}
	request.Args, request.Unused = r.arguments(f.entry, arguments)
	return request
}

const budgetField = "budget"

// budget removes `budget` from the flat members and returns its field maxTotalTokens, the only one that is allowed for one call; 0: it is
// not given, or invalid.
func (r *reader) budget() int {
	at := slices.IndexFunc(r.flat, func(m member) bool { return m.name == budgetField })
	if at < 0 {
		return 0
	}
	given := r.flat[at].value
	r.flat = slices.Delete(slices.Clone(r.flat), at, at+1)
	value, readable := r.readText(given, "/budget")
	switch {
	case !readable:
		return 0
	case value.Type == gjson.Null:
		return 0
	case !value.IsObject():
		r.WrongType("/budget", "an object, {\"maxTotalTokens\":…}", value)
		return 0
	}
	tokens := 0
	for _, m := range members(value) {
		pointer := fault.Key("/budget", m.name)
		switch {
		case m.name != "maxTotalTokens":
			r.Fault(fault.UnknownField, pointer, "the budget of one call has maxTotalTokens alone")
		case m.value.Type == gjson.Null:
		default:
			if n := r.Integer("count", m.value, pointer); n != nil {
				tokens = *n
			}
		}
	}
	return tokens
}

// refuseFlat rejects flat arguments in addition to params.
func (r *reader) refuseFlat() {
	if len(r.flat) == 0 {
		return
	}
	names := make([]string, len(r.flat))
	fetches := false
	for i, m := range r.flat {
		names[i] = fault.Quote(m.name)
		fetches = fetches || slices.Contains(fetchFields, m.name)
	}
	hint := ""
	if fetches {
		hint = "; to fetch more of a result, give its continuation_token"
	}
	r.Fault(fault.BadRequest, fault.Key("", r.flat[0].name), "%s beside params: put all arguments into params%s", joinFirst(names), hint)
}

// refuseAmbiguous rejects the flat form if a field of the call could also be an argument.
func (r *reader) refuseAmbiguous(e *steps.Entry) {
	for _, name := range callFields {
		if !declares(e, name) {
			continue
		}
		_, given := find(r.top, name)
		if selects := name == "resource" || name == "action" || name == "params"; selects && len(r.flat) > 0 || !selects && given {
			r.Fault(fault.BadRequest, "", "%s declares an argument %s itself: give its arguments in params", e.Spec().Name, name)
			return
		}
	}
	for _, m := range r.flat {
		if slices.Contains(helpFields, m.name) && !declares(e, m.name) {
			r.Fault(fault.BadRequest, "/"+m.name, `%s is a field of help, {"action":"help","params":{"action":%s}}; an argument of this `+
				`name must stand in params`, fault.Quote(m.name), rawjson.AppendQuote(nil, e.Spec().Name))
		}
	}
}

// arguments encodes given, followed by the hoisted arguments that the function declares and given lacks. unused are the hoisted names that
// the function does not declare.
func (r *reader) arguments(e *steps.Entry, given []member) (args []byte, unused []string) {
	args = []byte{'{'}
	add := func(m member) {
		if len(args) > 1 {
			args = append(args, ',')
		}
		args = append(append(append(args, m.key...), ':'), m.value.Raw...)
	}
	for _, m := range given {
		add(m)
	}
	for _, hoisted := range r.hoisted {
		declared := e.Argument(hoisted.name)
		switch {
		case declared == "":
			unused = append(unused, hoisted.name)
		case !slices.ContainsFunc(given, func(m member) bool { return e.Argument(m.name) == declared }):
			add(hoisted)
		}
	}
	return append(args, '}'), unused
}
