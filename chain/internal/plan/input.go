package plan

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
func (c *compiler) buildInput(r *Request) (input []byte, fills func(key string) bool) {
	values, params := rawjson.NewTable(r.Input), rawjson.NewTable(r.Params)
	if c.rules.Input != nil {
		c.overrideInput(values)
	}
	for _, set := range c.rules.Settings {
		values.Set(set.Key, settingValue(set, params))
		if r.Params == nil {
			c.unreadSettings = append(c.unreadSettings, set.Key)
		}
	}
	for _, param := range params.List {
		if value := gjson.Get(param.Raw, "default"); value.Exists() && !values.Has(param.Name) {
			values.Set(param.Name, value.Raw)
		}
	}
	if r.Params != nil && !r.anyInput {
		c.checkParams(values, params)
	}
	return rawjson.AppendObject(nil, values.List), func(key string) bool { return r.anyInput || values.Has(key) || params.Has(key) }
}

func (c *compiler) overrideInput(values *rawjson.Table) {
	compact, f := CompactJSON(c.rules.Input, c.rules.Requests.MaxBytes)
	if f == nil && !gjson.ParseBytes(compact).IsObject() {
		f = fault.New(fault.BadRequest, "must be a JSON object")
	}
	if f != nil {
		c.faults.Add(f.Under("/input"))
		return
	}
	for _, m := range rawjson.ListMembers(compact) {
		values.Set(m.Name, m.Raw)
	}
}

// settingValue parses a setting: as JSON if it is JSON, unless its param is declared as a string.
func settingValue(s Setting, params *rawjson.Table) string {
	if gjson.Get(params.Get(s.Key), "type").Str != "string" {
		if compact, f := CompactJSON([]byte(s.Value), DefaultMaxBytes); f == nil {
			return string(compact)
		}
	}
	return string(rawjson.AppendQuote(nil, s.Value))
}

// schemaPointer matches a registry's warning of a schema that it cannot check. Its groups are the JSON Pointer within params, and the
// reason.
var schemaPointer = regexp.MustCompile(`(?s)^its input schema is not checked as written: #/properties(/[^ ]*): (.*)$`)

// checkParams validates the input against `params`. A param without a default is required, except in a check (Override.Check).
func (c *compiler) checkParams(values, params *rawjson.Table) {
	schema := []byte(`{"type":"object","properties":`)
	schema = append(rawjson.AppendObject(schema, params.List), `,"required":[`...)
	for _, param := range params.List {
		if gjson.Get(param.Raw, "default").Exists() || c.rules.Check {
			continue
		}
		if schema[len(schema)-1] != '[' {
			schema = append(schema, ',')
		}
		schema = rawjson.AppendQuote(schema, param.Name)
	}
	schema = append(schema, "]}"...)

	var problem *fault.Error
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "chain.input", Input: schema}, Call: NotCalled}},
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
	for _, f := range entry.Check(rawjson.AppendObject(nil, values.List), nil) {
		c.faults.Add(f.Under("/input"))
	}
	c.warnUndeclared(values, params)
}

// warnUndeclared warns of input that params does not declare: it may be misspelled.
func (c *compiler) warnUndeclared(values, params *rawjson.Table) {
	names := params.Names()
	for _, m := range values.List {
		if params.Has(m.Name) {
			continue
		}
		isSet := slices.ContainsFunc(c.rules.Settings, func(s Setting) bool { return s.Key == m.Name })
		if !isSet && len(c.Warnings) >= MaxWarnings {
			continue
		}
		w := fault.New(fault.UnknownField, "params does not declare %q", fault.ClipRunes(m.Name, 60)).Under(fault.Key("/input", m.Name))
		w.Nearest = fault.Nearest(m.Name, names, 1)
		if isSet {
			c.faults.Add(w) // a value that is set explicitly must be declared
		} else {
			c.Warnings.Add(w)
		}
	}
}

// NotCalled is the Call of functions that are registered only for their schema.
func NotCalled(context.Context, []byte) ([]byte, error) { return []byte("null"), nil }

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
