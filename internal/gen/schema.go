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

// chainSchema is the published schema of a request.
func chainSchema(chain source) published {
	d := &document{source: chain, defs: map[string]*jsonschema.Schema{}}
	root := d.closed(chain.object("request"))
	for _, f := range chain.object("fetchRequest").fields {
		d.property(root, &f)
	}
	root.Required, root.Defs = nil, d.defs // steps or continuation_token
	return published{
		"A onecall chain",
		"The arguments of the chain tool, and the content of a *.chain.json file: either steps to run, or a continuation_token to fetch from an earlier large result.",
		root,
	}
}

// published is a schema that begins with what it is.
type published struct {
	title, description string
	*jsonschema.Schema
}

// MarshalJSON implements json.Marshaler.
func (p published) MarshalJSON() ([]byte, error) {
	head, err := members{{"$schema", dialect}, {"title", p.title}, {"description", p.description}}.MarshalJSON()
	if err != nil {
		return nil, err
	}
	rest, err := p.Schema.MarshalJSON()
	return append(append(head[:len(head)-1], ','), rest[1:]...), err
}

// document is a schema whose structs stand in its $defs.
type document struct {
	source source
	defs   map[string]*jsonschema.Schema
}

// closed is the schema of an object that has only the fields of a struct.
func (d *document) closed(o *object) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, Properties: map[string]*jsonschema.Schema{}}
	for _, f := range o.fields {
		d.property(s, &f)
	}
	return s
}

// property adds a field that is not there yet.
func (d *document) property(s *jsonschema.Schema, f *field) {
	if !f.built() || s.Properties[f.name] != nil {
		return
	}
	_, required := f.rules()["required"]
	p := d.schema(f)
	p.Description = f.doc
	switch {
	case required || f.of == "[]step":
	case p.Enum != nil:
		p.Type, p.Enum = "", append(p.Enum, nil)
	case p.Type != "":
		p.Types, p.Type = []string{p.Type, "null"}, ""
	}
	s.Properties[f.name] = p
	s.PropertyOrder = append(s.PropertyOrder, f.name)
	if required || f.of == "[]step" {
		s.Required = append(s.Required, f.name)
	}
}

// refer is a reference to the schema of a struct, which is put into $defs.
func (d *document) refer(o *object) *jsonschema.Schema {
	name := strings.TrimSuffix(o.name, "Request")
	if d.defs[name] == nil {
		d.defs[name] = &jsonschema.Schema{} // so that a struct may hold itself
		def := d.closed(o)
		def.Types, def.Type = []string{"object", "null"}, ""
		if name == "step" {
			def.Types, def.Type = nil, "object"
		}
		*d.defs[name] = *def
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + name}
}

// schema is what a field may hold, but for null.
func (d *document) schema(f *field) *jsonschema.Schema {
	if o, list := d.source.inner(f); list && o != nil {
		return &jsonschema.Schema{Type: "array", Items: d.refer(o), MinItems: new(1)}
	} else if o != nil {
		return d.refer(o)
	}
	s := plain(f)
	bound(s, f)
	return s
}

// plain is the schema of a field that is no struct, without the bounds.
func plain(f *field) *jsonschema.Schema {
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
	case "expression":
		s.Types = []string{"string", "boolean", "null"}
		return s
	case "mode":
		s.Type = "string"
		s.Enum = anyOf(budget.Modes())
		return s
	case "page":
		s.Minimum = new(1.0)
	}
	switch f.of {
	case "string":
		s.Type = "string"
	case "bool":
		s.Type = "boolean"
	case "int":
		s.Type = "integer"
	case "[]string":
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string"}
	default:
		panic(fmt.Sprintf("%s: no schema is known for the type %s", f.name, f.of))
	}
	return s
}

// bound adds what the tag validate says.
func bound(s *jsonschema.Schema, f *field) {
	isText := f.of == "string"
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
			s.Enum = anyOf(strings.Fields(param))
		case rule == "identifier":
			s.Pattern = "^[A-Za-z_][A-Za-z0-9_]*$"
		case rule == "unreserved":
			s.Not = &jsonschema.Schema{Enum: anyOf(strings.Fields(param))}
		}
	}
	// A least that has a fault of its own, and so is not in the tag validate.
	switch n, err := strconv.Atoi(f.tag.Get("least")); {
	case err != nil:
	case isText || f.tag.Get("kind") == "expression":
		s.MinLength = &n
	default:
		s.Minimum = new(float64(n))
	}
}

// indented is a value as readable JSON.
func indented(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return []byte(unescaped.Replace(out.String())), err
}

// unescaped has the characters as they are that the schemas' own encoding escapes for HTML.
var unescaped = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
