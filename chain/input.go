package chain

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// input makes what $input names: the request's `input`, under what the door sets over it, with the defaults of `params`
// in the gaps. It also gives a test of which of its keys can be there, for references.
func (c *compiler) input(r *request) (input []byte, fills func(key string) bool) {
	list := members(r.Input)
	list = c.overrideInput(list)
	params := members(r.Params)
	for _, setting := range c.override.Set {
		list = set(list, setting.Key, settingValue(setting, params))
	}
	for _, param := range params {
		if value := gjson.Get(param.raw, "default"); value.Exists() && find(list, param.name) < 0 {
			list = append(list, objectMember{param.name, value.Raw})
		}
	}
	if r.Params != nil {
		c.checkParams(list, params)
	}
	return appendObject(nil, list), func(key string) bool { return find(list, key) >= 0 || find(params, key) >= 0 }
}

func (c *compiler) overrideInput(list []objectMember) []objectMember {
	if c.override.Input == nil {
		return list
	}
	compact, f := compactJSON(c.override.Input, c.o.MaxRequestBytes)
	if f == nil && !gjson.ParseBytes(compact).IsObject() {
		f = fault.New(fault.BadRequest, "must be a JSON object")
	}
	if f != nil {
		c.faults = append(c.faults, f.Under("/input"))
		return list
	}
	for _, m := range members(compact) {
		list = set(list, m.name, m.raw)
	}
	return list
}

// settingValue reads a setting's text: as JSON if it is JSON, unless its declared type is string.
func settingValue(s Setting, params []objectMember) string {
	if i := find(params, s.Key); i < 0 || gjson.Get(params[i].raw, "type").Str != "string" {
		if compact, f := compactJSON([]byte(s.Value), DefaultMaxRequestBytes); f == nil {
			return string(compact)
		}
	}
	return string(appendString(nil, s.Value))
}

// checkParams validates the input against `params`: a param without a default is required.
func (c *compiler) checkParams(list, params []objectMember) {
	schema := []byte(`{"type":"object","properties":`)
	schema = append(appendObject(schema, params), `,"required":[`...)
	for _, param := range params {
		if gjson.Get(param.raw, "default").Exists() || c.override.Check {
			continue
		}
		if schema[len(schema)-1] != '[' {
			schema = append(schema, ',')
		}
		schema = appendString(schema, param.name)
	}
	schema = append(schema, "]}"...)

	var warned *fault.Error
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "chain.input", Input: schema}, Call: notCalled}},
		&steps.RegistryOptions{Warn: func(f *fault.Error) { warned = f }})
	if err != nil || warned != nil {
		if f, ok := fault.As(err); ok {
			warned = f
		}
		c.fault(fault.BadRequest, "/params", "params must be JSON Schemas: %s", warned.Message)
		return
	}
	entry, err := registry.Resolve("chain.input")
	if err != nil {
		return
	}
	for _, f := range entry.Check(appendObject(nil, list), nil) {
		c.faults = append(c.faults, f.Under("/input"))
	}
	for _, m := range list {
		if find(params, m.name) < 0 {
			names := make([]string, len(params))
			for i := range params {
				names[i] = params[i].name
			}
			w := fault.New(fault.UnknownField, "params does not declare %q", m.name).Under(fault.Key("/input", m.name))
			w.Nearest = fault.Nearest(m.name, names, 1)
			c.warn(w)
		}
	}
}

// notCalled stands for the call of a function that is only there for its schema.
func notCalled(context.Context, []byte) ([]byte, error) { return null, nil }

// checkInputs finds references to $input that nothing can fill.
func (c *compiler) checkInputs(l *level, uses []refs.Use) {
	for _, u := range uses {
		if u.Root != refs.RootInput || u.Lenient || len(u.Path) == 0 || u.Path[0].Kind > refs.Quoted {
			continue
		}
		key := u.Path[0].Key
		if l.fills(key) {
			continue
		}
		if l.depth > 0 {
			c.fault(fault.BadReference, u.At, "$input of an inline chain is the step's args, and they have no %q", key)
		} else {
			c.fault(fault.BadReference, u.At, "nothing fills $input.%s: give it in input, or declare it in params", key)
		}
	}
}

func find(list []objectMember, name string) int {
	for i := range list {
		if list[i].name == name {
			return i
		}
	}
	return -1
}

func set(list []objectMember, name, raw string) []objectMember {
	if i := find(list, name); i >= 0 {
		list[i].raw = raw
		return list
	}
	return append(list, objectMember{name, raw})
}

// appendObject writes members as a JSON object.
func appendObject(dst []byte, list []objectMember) []byte {
	dst = append(dst, '{')
	for i, m := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, m.name), ':')
		dst = append(dst, m.raw...)
	}
	return append(dst, '}')
}
