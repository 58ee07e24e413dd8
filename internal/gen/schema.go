package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/onecall-mcp/onecall/budget"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// chainSchema returns the published schema of a request.
func chainSchema(chain structs) titledSchema {
	d := &schemaBuilder{structs: chain, defs: map[string]*jsonschema.Schema{}}
	root := d.structSchema(chain.mustGet("Request"))
	for _, f := range chain.mustGet("FetchRequest").fields {
		d.addProperty(root, &f)
	}
	root.Required, root.Defs = nil, d.defs // no field is required: a request has either steps or continuation_token
	return titledSchema{
		"A onecall chain",
		"The arguments of the chain tool, and the content of a *.chain.json file: " +
			"either steps to run, or a continuation_token to fetch from an earlier large result.",
		root,
	}
}

// titledSchema is a schema that begins with its title and description.
type titledSchema struct {
	title, description string
	*jsonschema.Schema
}

// MarshalJSON implements json.Marshaler.
func (p titledSchema) MarshalJSON() ([]byte, error) {
	head, err := object{{"$schema", dialect}, {"title", p.title}, {"description", p.description}}.MarshalJSON()
	if err != nil {
		return nil, err
	}
	rest, err := p.Schema.MarshalJSON()
	return append(append(head[:len(head)-1], ','), rest[1:]...), err
}

// schemaBuilder builds a schema whose $defs hold the schemas of structs.
type schemaBuilder struct {
	structs structs
	defs    map[string]*jsonschema.Schema
}

// structSchema returns the schema of an object that has only the fields of a struct.
func (d *schemaBuilder) structSchema(o *structType) *jsonschema.Schema {
	nothing := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	s := &jsonschema.Schema{Type: "object", AdditionalProperties: nothing, Properties: map[string]*jsonschema.Schema{}}
	for _, f := range o.fields {
		d.addProperty(s, &f)
	}
	return s
}

// addProperty adds a field unless it is already there.
func (d *schemaBuilder) addProperty(s *jsonschema.Schema, f *field) {
	if s.Properties[f.name] != nil {
		return
	}
	_, required := f.rules()["required"]
	p := d.fieldSchema(f)
	p.Description = f.doc
	switch {
	case required || f.goType == "[]StepRequest":
	case p.Enum != nil:
		p.Type, p.Enum = "", append(p.Enum, nil)
	case p.Type != "":
		p.Types, p.Type = []string{p.Type, "null"}, ""
	}
	s.Properties[f.name] = p
	s.PropertyOrder = append(s.PropertyOrder, f.name)
	if required || f.goType == "[]StepRequest" {
		s.Required = append(s.Required, f.name)
	}
}

// defRef returns a reference to the schema of a struct, and adds that schema to $defs.
func (d *schemaBuilder) defRef(o *structType) *jsonschema.Schema {
	name := strings.ToLower(strings.TrimSuffix(o.name, "Request"))
	if d.defs[name] == nil {
		d.defs[name] = &jsonschema.Schema{} // so that a struct may refer to itself
		def := d.structSchema(o)
		def.Types, def.Type = []string{"object", "null"}, ""
		if name == "step" {
			def.Types, def.Type = nil, "object"
		}
		if name == "step" || name == "undo" { // the short form: a function's name with its arguments
			def.AdditionalProperties, def.Required = &jsonschema.Schema{Type: "object"}, nil
			def.If = &jsonschema.Schema{}
			for _, call := range []string{"fn", "expr", "chain"} {
				if def.Properties[call] != nil {
					def.If.AnyOf = append(def.If.AnyOf, &jsonschema.Schema{Required: []string{call}})
				}
			}
			def.Then = &jsonschema.Schema{PropertyNames: &jsonschema.Schema{Enum: anySlice(def.PropertyOrder)}}
		}
		*d.defs[name] = *def
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + name}
}

// fieldSchema returns the schema of a field, without null.
func (d *schemaBuilder) fieldSchema(f *field) *jsonschema.Schema {
	if o, list := d.structs.innerStruct(f); list && o != nil {
		return &jsonschema.Schema{Type: "array", Items: d.defRef(o), MinItems: new(1)}
	} else if o != nil {
		return d.defRef(o)
	}
	s := typeSchema(f)
	addBounds(s, f)
	return s
}

// typeSchema returns the schema of a field that is no struct, without its bounds.
func typeSchema(f *field) *jsonschema.Schema {
	s := &jsonschema.Schema{}
	switch f.tag.Get("kind") {
	case "any":
		return s
	case "object":
		s.Type = "object"
		return s
	case "schemas":
		s.Type, s.AdditionalProperties = "object", &jsonschema.Schema{Types: []string{"object", "boolean"}}
		return s
	case "ifChanged":
		s.Types, s.Pattern = []string{"boolean", "string", "null"}, "^"+budget.TokenPrefix // the pattern is for the string
		return s
	case "expression":
		s.Types = []string{"string", "boolean", "null"}
		return s
	case "mode":
		s.Type = "string"
		s.Enum = anySlice(budget.Modes())
		return s
	case "page":
		s.Minimum = new(1.0)
	}
	switch f.goType {
	case "string":
		s.Type = "string"
	case "bool":
		s.Type = "boolean"
	case "int":
		s.Type = "integer"
	case "[]string":
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string"}
	default:
		panic(fmt.Sprintf("%s: no schema is known for the type %s", f.name, f.goType))
	}
	return s
}

// addBounds adds the rules of the tag validate.
func addBounds(s *jsonschema.Schema, f *field) {
	isText := f.goType == "string"
	for rule, param := range f.rules() {
		n, _ := strconv.Atoi(param)
		switch {
		case rule == "min" && isText:
			s.MinLength = &n
		case rule == "required" && isText:
			s.MinLength = new(1)
		case rule == "max" && isText:
			s.MaxLength = &n
		case rule == "min":
			s.Minimum = new(float64(n))
		case rule == "max":
			s.Maximum = new(float64(n))
		case rule == "oneof":
			s.Enum = anySlice(strings.Fields(param))
		case rule == "identifier":
			s.Pattern = "^[A-Za-z_][A-Za-z0-9_]*$"
		case rule == "unreserved":
			s.Not = &jsonschema.Schema{Enum: anySlice(strings.Fields(param))}
		}
	}
	// The tag minimum is a minimum that is not in the tag validate because it has a fault of its own.
	switch n, err := strconv.Atoi(f.tag.Get("minimum")); {
	case err != nil:
	case isText || f.tag.Get("kind") == "expression":
		s.MinLength = &n
	default:
		s.Minimum = new(float64(n))
	}
}

// indentJSON returns a value as indented JSON.
func indentJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return []byte(unescapeHTML.Replace(out.String())), err
}

// unescapeHTML undoes the HTML escaping of the MarshalJSON methods, which the encoder's setting does not reach.
var unescapeHTML = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
