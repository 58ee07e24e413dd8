package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// members is a JSON object whose members keep their order.
type members []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, one := range m {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		out.Write(append(append(name, ':'), value...))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// tools is what onecall's own tools take: their input schemas, of which each word is paid for by every session of every
// client, and their manuals.
func tools(chain, mcp source, g *guide) members {
	fetch := chain.object("fetchRequest")
	listed := &object{fields: append(chain.object("request").fields, fetch.fields...)}
	tool := func(input members, manual any) members {
		return members{{"inputSchema", input}, {"manual", manual}}
	}
	arguments := func(name string) members {
		o := mcp.object(name)
		return tool(shown(mcp, o), manual(mcp, o))
	}
	return members{
		{"chain", tool(shown(chain, listed), members{
			{"chain", manual(chain, listed)},
			{"step", manual(chain, chain.object("step"))},
			{"references", g.references},
		})},
		{"search", arguments("searchArguments")},
		{"info", arguments("infoArguments")},
	}
}

// shown is the input schema that a model reads: the fields with the tag tool, without bounds.
func shown(s source, o *object) members {
	var properties members
	for _, f := range o.fields {
		says, listed := f.tag.Lookup("tool")
		if !listed || slices.ContainsFunc(properties, func(m member) bool { return m.name == f.name }) {
			continue
		}
		held, list := s.inner(&f)
		switch {
		case held == nil:
			properties = append(properties, member{f.name, leaf(&f, says)})
		case list:
			properties = append(properties, member{f.name, described(members{{"type", "array"}, {"items", shown(s, held)}}, says)})
		default:
			properties = append(properties, member{f.name, described(shown(s, held), says)})
		}
	}
	schema := members{{"type", "object"}}
	if len(properties) > 0 {
		schema = append(schema, member{"properties", properties})
	}
	return schema
}

func described(schema members, says string) members {
	if says != "" {
		schema = append(schema, member{"description", says})
	}
	return schema
}

// leaf is the schema of a field that holds no struct. A field that takes anything has {}, as some clients know no other such schema;
// jsonschema writes true.
func leaf(f *field, says string) any {
	p := plain(f)
	if p.Types != nil {
		p.Type, p.Types = p.Types[0], nil
	}
	p.Description, p.Minimum = says, nil
	if reflect.DeepEqual(p, &jsonschema.Schema{}) {
		return members{}
	}
	return p
}

// manual says what each field means. What holds further fields names them first.
func manual(s source, o *object) members {
	var m members
	for _, f := range o.fields {
		says, other := f.tag.Lookup("manual")
		if !other {
			says = f.doc
		}
		if !f.built() || says == "-" {
			continue
		}
		if held, list := s.inner(&f); held != nil && !list {
			says = fieldsOf(held) + ": " + says
			for _, part := range manual(s, held) {
				says += " " + part.name + ": " + part.value.(string)
			}
		}
		m = append(m, member{f.name, says})
	}
	return m
}

// fieldsOf lists the names of a struct's fields.
func fieldsOf(o *object) string {
	var names []string
	for _, f := range o.fields {
		if f.built() {
			names = append(names, f.name)
		}
	}
	return "{" + strings.Join(names, ", ") + "}"
}
