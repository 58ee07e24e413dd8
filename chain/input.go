package chain

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// buildInput builds $input: the request's `input`, overridden by the front end, and the defaults of `params` for missing members. fills
// reports whether a key can exist.
func (c *compiler) buildInput(r *request) (input []byte, fills func(key string) bool) {
	values, params := newTable(r.Input), newTable(r.Params)
	if c.rules.input != nil {
		c.overrideInput(values)
	}
	for _, set := range c.rules.settings {
		values.set(set.key, settingValue(set, params))
		if r.Params == nil {
			c.unreadSettings = append(c.unreadSettings, set.key)
		}
	}
	for _, param := range params.list {
		if value := gjson.Get(param.raw, "default"); value.Exists() && !values.has(param.name) {
			values.set(param.name, value.Raw)
		}
	}
	if r.Params != nil && !r.anyInput {
		c.checkParams(values, params)
	}
	return appendObject(nil, values.list), func(key string) bool { return r.anyInput || values.has(key) || params.has(key) }
}

// table is an object whose members keep their order and are found by name.
type table struct {
	list  []objectMember
	index map[string]int
}

func newTable(object []byte) *table {
	t := &table{list: members(object), index: map[string]int{}}
	for i, m := range t.list {
		t.index[m.name] = i
	}
	return t
}

func (t *table) has(name string) bool {
	_, ok := t.index[name]
	return ok
}

// get returns a member's raw value, or "" if there is none.
func (t *table) get(name string) string {
	if i, ok := t.index[name]; ok {
		return t.list[i].raw
	}
	return ""
}

func (t *table) set(name, raw string) {
	if i, ok := t.index[name]; ok {
		t.list[i].raw = raw
		return
	}
	t.index[name] = len(t.list)
	t.list = append(t.list, objectMember{name, raw})
}

func (t *table) remove(name string) {
	i, ok := t.index[name]
	if !ok {
		return
	}
	t.list = slices.Delete(t.list, i, i+1)
	t.index = map[string]int{}
	for i, m := range t.list {
		t.index[m.name] = i
	}
}

func (t *table) names() []string {
	names := make([]string, len(t.list))
	for i := range t.list {
		names[i] = t.list[i].name
	}
	return names
}

func (c *compiler) overrideInput(values *table) {
	compact, f := compactJSON(c.rules.input, c.rules.requests.maxBytes)
	if f == nil && !gjson.ParseBytes(compact).IsObject() {
		f = fault.New(fault.BadRequest, "must be a JSON object")
	}
	if f != nil {
		c.faults.add(f.Under("/input"))
		return
	}
	for _, m := range members(compact) {
		values.set(m.name, m.raw)
	}
}

// settingValue parses a setting: as JSON if it is JSON, unless its param is declared as a string.
func settingValue(s setting, params *table) string {
	if gjson.Get(params.get(s.key), "type").Str != "string" {
		if compact, f := compactJSON([]byte(s.value), DefaultMaxBytes); f == nil {
			return string(compact)
		}
	}
	return string(rawjson.AppendQuote(nil, s.value))
}

// schemaPointer matches a registry's warning of a schema that it cannot check. Its groups are the JSON Pointer within params, and the
// reason.
var schemaPointer = regexp.MustCompile(`(?s)^its input schema is not checked as written: #/properties(/[^ ]*): (.*)$`)

// checkParams validates the input against `params`. A param without a default is required, except in a check (Override.Check).
func (c *compiler) checkParams(values, params *table) {
	schema := []byte(`{"type":"object","properties":`)
	schema = append(appendObject(schema, params.list), `,"required":[`...)
	for _, param := range params.list {
		if gjson.Get(param.raw, "default").Exists() || c.rules.check {
			continue
		}
		if schema[len(schema)-1] != '[' {
			schema = append(schema, ',')
		}
		schema = rawjson.AppendQuote(schema, param.name)
	}
	schema = append(schema, "]}"...)

	var problem *fault.Error
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "chain.input", Input: schema}, Call: notCalled}},
		&steps.RegistryOptions{Warn: func(f *fault.Error) { problem = f }})
	if err != nil || problem != nil {
		if f, ok := fault.As(err); ok {
			problem = f
		}
		at, reason := "/params", strings.TrimPrefix(problem.Message, "chain.input: ")
		if match := schemaPointer.FindStringSubmatch(reason); match != nil {
			at, reason = at+match[1], match[2]
		}
		c.fault(fault.BadRequest, at, "params must be JSON Schemas: %s", reason)
		return
	}
	entry, err := registry.Resolve("chain.input")
	if err != nil {
		return
	}
	for _, f := range entry.Check(appendObject(nil, values.list), nil) {
		c.faults.add(f.Under("/input"))
	}
	c.warnUndeclared(values, params)
}

// warnUndeclared warns of input that params does not declare: it may be misspelled.
func (c *compiler) warnUndeclared(values, params *table) {
	names := params.names()
	for _, m := range values.list {
		if params.has(m.name) {
			continue
		}
		isSet := slices.ContainsFunc(c.rules.settings, func(s setting) bool { return s.key == m.name })
		if !isSet && len(c.warnings) >= maxWarnings {
			continue
		}
		w := fault.New(fault.UnknownField, "params does not declare %q", fault.ClipRunes(m.name, 60)).Under(fault.Key("/input", m.name))
		w.Nearest = fault.Nearest(m.name, names, 1)
		if isSet {
			c.faults.add(w) // a value that is set explicitly must be declared
		} else {
			c.warnings.add(w)
		}
	}
}

// notCalled is the Call of functions that are registered only for their schema.
func notCalled(context.Context, []byte) ([]byte, error) { return []byte("null"), nil }

// checkInputUse records which member of $input a reference reads. A member that nothing fills is a fault.
func (c *compiler) checkInputUse(l *level, u refs.Use) {
	byKey := len(u.Path) > 0 && u.Path[0].Kind <= refs.Quoted // it reads one member, as .name or ["name"]; else perhaps all
	if l.depth == 0 && len(c.saved) == 0 {
		c.unreadSettings = slices.DeleteFunc(c.unreadSettings, func(key string) bool { return !byKey || u.Path[0].Key == key })
	}
	if u.Lenient || !byKey || l.fills(u.Path[0].Key) {
		return
	}
	key, optional := u.Path[0].Key, ""
	if u.Expression {
		optional = ". Write $input?." + key + " if it may be missing"
	}
	if l.depth > 0 {
		c.fault(fault.BadReference, u.At, "$input of an inline chain is the step's args, and they have no %q%s", key, optional)
	} else {
		c.fault(fault.BadReference, u.At, "nothing fills $input.%s: give it in input, or declare it in params%s", key, optional)
	}
}

// appendObject appends members as a JSON object.
func appendObject(dst []byte, list []objectMember) []byte {
	dst = append(dst, '{')
	for i, m := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(rawjson.AppendQuote(dst, m.name), ':')
		dst = append(dst, m.raw...)
	}
	return append(dst, '}')
}
