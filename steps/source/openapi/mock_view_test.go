package openapi

import (
	"encoding/json"
	"slices"
	"strings"
)

// view looks at a JSON Schema as far as the mock service needs it: types, members, elements, references, unions.
type view struct {
	root map[string]any
	node any
}

func viewOf(schema []byte) view {
	var root map[string]any
	if err := json.Unmarshal(schema, &root); err != nil {
		panic(err)
	}
	return view{root, root}
}

// branches are the schemas that a node is made of: itself, and what it refers to or unites.
func (v view) branches(depth int) []map[string]any {
	node, ok := v.node.(map[string]any)
	if !ok || depth > 12 {
		return nil
	}
	all := []map[string]any{node}
	if ref, ok := node["$ref"].(string); ok {
		all = append(all, v.at(ref).branches(depth+1)...)
	}
	for _, keyword := range []string{"allOf", "oneOf", "anyOf"} {
		list, _ := node[keyword].([]any)
		for _, item := range list {
			all = append(all, view{v.root, item}.branches(depth+1)...)
		}
	}
	return all
}

func (v view) at(ref string) view {
	var at any = v.root
	for _, token := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		m, _ := at.(map[string]any)
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return view{v.root, at}
}

// is reports whether a value of one of these types may stand here.
func (v view) is(types ...string) bool {
	return slices.ContainsFunc(v.branches(0), func(b map[string]any) bool {
		switch t := b["type"].(type) {
		case string:
			return slices.Contains(types, t)
		case []any:
			return slices.ContainsFunc(t, func(one any) bool { return slices.Contains(types, one.(string)) })
		}
		return b["properties"] != nil && slices.Contains(types, "object")
	})
}

func (v view) property(name string) view {
	for _, b := range v.branches(0) {
		if properties, ok := b["properties"].(map[string]any); ok && properties[name] != nil {
			return view{v.root, properties[name]}
		}
	}
	for _, b := range v.branches(0) {
		if b["additionalProperties"] != nil {
			return view{v.root, b["additionalProperties"]}
		}
	}
	return view{v.root, nil}
}

func (v view) items() view {
	for _, b := range v.branches(0) {
		if b["items"] != nil {
			return view{v.root, b["items"]}
		}
	}
	return view{v.root, nil}
}

// scalar gives a text the type that the schema names.
func (v view) scalar(text string) any {
	structured := text != "" && strings.ContainsAny(text[:1], "{[")
	numeric := text != "" && strings.ContainsAny(text[:1], "-0123456789")
	switch {
	case !json.Valid([]byte(text)):
	case structured && !v.is("string"), // what lies deeper than a style can say is sent as JSON
		numeric && v.is("integer", "number"),
		(text == "true" || text == "false") && v.is("boolean"):
		return json.RawMessage(text)
	}
	return text
}

// list and object are scalar for a list and a map of texts.
func (v view) list(texts []string) any {
	out := []any{}
	for _, text := range texts {
		out = append(out, v.items().scalar(text))
	}
	return out
}

func (v view) object(names, texts []string) any {
	out := map[string]any{}
	for i, name := range names {
		out[name] = v.property(name).scalar(texts[i])
	}
	return out
}

// isList reports whether a value is a list unless it is an object: a single text means itself where one is allowed.
func (v view) isList() bool { return v.is("array") && !v.is("string") }
