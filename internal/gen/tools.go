package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (m object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, member := range m {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(member.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(member.value)
		if err != nil {
			return nil, err
		}
		out.Write(append(append(name, ':'), value...))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// toolTexts returns the input schemas and manuals of onecall's own tools. Every session of every client pays for each word of an
// input schema.
func toolTexts(chain, mcp structs, g *guide) object {
	fetch := chain.mustGet("FetchRequest")
	chainFields := &structType{fields: append(chain.mustGet("Request").fields, fetch.fields...)}
	tool := func(input object, manual any) object {
		return object{{"inputSchema", input}, {"manual", manual}}
	}
	arguments := func(name string) object {
		o := mcp.mustGet(name)
		return tool(toolSchema(mcp, o), manual(mcp, o))
	}
	return object{
		{"chain", tool(toolSchema(chain, chainFields), object{
			{"chain", manual(chain, chainFields)},
			{"step", manual(chain, chain.mustGet("StepRequest"))},
			{"references", g.references},
		})},
		{"search", arguments("searchArguments")},
		{"info", arguments("infoArguments")},
	}
}

// toolSchema returns the input schema that a model reads: the fields with the tag tool, without bounds.
func toolSchema(s structs, o *structType) object {
	var properties object
	for _, f := range o.fields {
		text, ok := f.tag.Lookup("tool")
		if !ok || slices.ContainsFunc(properties, func(m member) bool { return m.name == f.name }) {
			continue
		}
		inner, list := s.innerStruct(&f)
		switch {
		case inner == nil:
			properties = append(properties, member{f.name, leafSchema(&f, text)})
		case list:
			properties = append(properties, member{f.name, withDescription(object{{"type", "array"}, {"items", toolSchema(s, inner)}}, text)})
		default:
			properties = append(properties, member{f.name, withDescription(toolSchema(s, inner), text)})
		}
	}
	schema := object{{"type", "object"}}
	if len(properties) > 0 {
		schema = append(schema, member{"properties", properties})
	}
	return schema
}

func withDescription(schema object, text string) object {
	if text != "" {
		schema = append(schema, member{"description", text})
	}
	return schema
}

// leafSchema returns the schema of a field that holds no struct. A field that takes anything has the schema {}: some clients do not
// know true, which jsonschema writes.
func leafSchema(f *field, text string) any {
	p := typeSchema(f)
	if p.Types != nil {
		p.Type, p.Types = p.Types[0], nil
	}
	p.Description, p.Minimum = text, nil
	if reflect.DeepEqual(p, &jsonschema.Schema{}) {
		return object{}
	}
	return p
}

// manual returns the meaning of each field: the tag manual or, without one, the field's doc comment. A tag manual of "-" leaves the field
// out. The text of a field that holds a struct begins with the names of the struct's fields and ends with their meanings.
func manual(s structs, o *structType) object {
	var m object
	for _, f := range o.fields {
		text, ok := f.tag.Lookup("manual")
		if !ok {
			text = f.doc
		}
		if text == "-" {
			continue
		}
		if inner, list := s.innerStruct(&f); inner != nil && !list {
			text = fieldsOf(inner) + ": " + text
			for _, inner := range manual(s, inner) {
				text += " " + inner.name + ": " + inner.value.(string)
			}
		}
		m = append(m, member{f.name, text})
	}
	return m
}

// fieldsOf lists the names of a struct's fields.
func fieldsOf(o *structType) string {
	var names []string
	for _, f := range o.fields {
		names = append(names, f.name)
	}
	return "{" + strings.Join(names, ", ") + "}"
}
