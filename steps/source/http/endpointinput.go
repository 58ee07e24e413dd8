package http

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// compileInput returns the schema of the arguments: the endpoint's own, or one derived from the arguments that it uses; nil if
// the endpoint's own is not the schema of an object.
func (c *endpointCompiler) compileInput() json.RawMessage {
	if len(c.Input) == 0 {
		return c.inputs.schema()
	}
	schema := gjson.ParseBytes(c.Input)
	if !json.Valid(c.Input) || !schema.IsObject() || schema.Get("type").Str != "object" {
		c.fault("/input", `the input must be the JSON Schema of an object: {"type":"object","properties":{…}}`)
		return nil
	}
	if schema.Get("additionalProperties").Type != gjson.False || schema.Get("patternProperties").Exists() {
		return bytes.Clone(c.Input)
	}
	var declared []string
	schema.Get("properties").ForEach(func(name, _ gjson.Result) bool {
		declared = append(declared, name.Str)
		return true
	})
	for _, in := range c.inputs.list {
		if !slices.Contains(declared, in.name) {
			c.unknownWord("/input", in.name, declared, "%s is used, and the schema does not allow it: declare it in properties",
				fault.Short(in.name))
		}
	}
	return bytes.Clone(c.Input)
}

// inputs are the arguments that an endpoint uses, in order of their first use.
type inputs struct {
	list       []input
	wholeInput bool // $input is used as a whole, so any argument is accepted
}

type input struct {
	name     string
	required bool
	schema   string
}

// Schemas of values that become text, and of any value.
const (
	scalarSchema = `{"type":["string","number","boolean"]}`
	anySchema    = `{}`
)

// add adds an argument. An argument that is used several times is required if one use requires it, and has the schema of the first use
// that restricts it.
func (i *inputs) add(name string, required bool, schema string) {
	at := slices.IndexFunc(i.list, func(in input) bool { return in.name == name })
	if at < 0 {
		i.list = append(i.list, input{name, required, schema})
		return
	}
	i.list[at].required = i.list[at].required || required
	if i.list[at].schema == anySchema {
		i.list[at].schema = schema
	}
}

// addUse adds the argument that a reference to $input names. A reference without a name uses the whole input.
func (i *inputs) addUse(use refs.Use) {
	if len(use.Path) == 0 {
		i.wholeInput = true
		return
	}
	schema := anySchema
	if !use.Whole && len(use.Path) == 1 && !use.Lenient {
		schema = scalarSchema
	}
	i.add(use.Path[0].Key, !use.Lenient, schema)
}

// schema returns the schema of an object of these arguments.
func (i *inputs) schema() json.RawMessage {
	properties, required := []byte{'{'}, []byte{'['}
	for n, in := range i.list {
		if n > 0 {
			properties = append(properties, ',')
		}
		properties = append(append(append(properties, quote(in.name)...), ':'), in.schema...)
		if in.required {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required = append(required, quote(in.name)...)
		}
	}
	schema := `{"type":"object","properties":` + string(properties) + `}`
	if len(required) > 1 {
		schema += `,"required":` + string(required) + `]`
	}
	if !i.wholeInput {
		schema += `,"additionalProperties":false`
	}
	return json.RawMessage(schema + "}")
}
