package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// view reads a JSON Schema as far as samples need it: types, members, elements, references, unions.
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

// branches returns the schemas that apply to a node: the node itself, its reference and its alternatives.
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

// is reports whether the schema allows a value of one of these types.
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

func (v view) items() view {
	for _, b := range v.branches(0) {
		if b["items"] != nil {
			return view{v.root, b["items"]}
		}
	}
	return view{v.root, nil}
}

// sample makes a value that a schema probably accepts: with all members, down to some depth, if full is set, else only with the required
// ones.
func (v view) sample(depth int, full bool) any {
	for _, b := range v.branches(0) {
		if value, ok := b["const"]; ok {
			return value
		}
		if list, ok := b["enum"].([]any); ok && len(list) > 0 {
			return list[len(list)-1]
		}
	}
	node, _ := v.node.(map[string]any)
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if list, ok := node[keyword].([]any); ok && len(list) > 0 && node["properties"] == nil {
			return view{v.root, list[0]}.sample(depth, full)
		}
	}
	switch {
	case v.is("object"):
		return v.sampleObject(depth, full)
	case v.is("array"):
		list := []any{}
		minimum, _ := v.number("minItems")
		for range max(int(minimum), 1) {
			list = append(list, v.items().sample(depth+1, full))
		}
		return list
	case v.is("integer", "number"):
		minimum, ok := v.number("minimum")
		if maximum, bounded := v.number("maximum"); !ok && bounded {
			minimum = min(maximum, 7)
		} else if !ok {
			minimum = 7
		}
		return json.Number(fmt.Sprint(minimum))
	case v.is("boolean"):
		return true
	case v.is("string"):
		return v.sampleText()
	case v.is("null"):
		return nil
	}
	return "x&y z"
}

func (v view) sampleText() string {
	texts := map[any]string{"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "uri": "https://example.com/a?b=c",
		"email": "a@example.com",
		"uuid":  "123e4567-e89b-12d3-a456-426614174000", "ipv4": "192.0.2.1", "hostname": "example.com", "time": "03:04:05Z"}
	for _, b := range v.branches(0) {
		if text, ok := texts[b["format"]]; ok {
			return text
		}
		if b["contentEncoding"] != nil {
			return "aGk="
		}
		for _, keyword := range []string{"example", "default"} {
			if text, ok := b[keyword].(string); ok && text != "" && b["pattern"] != nil {
				return text
			}
		}
	}
	text := "a/b c&d=é"
	if maximum, ok := v.number("maxLength"); ok && maximum < 9 {
		text = "abcdefgh"[:int(maximum)]
	}
	for minimum, _ := v.number("minLength"); len([]rune(text)) < int(minimum); {
		text += "x"
	}
	return text
}

func (v view) sampleObject(depth int, full bool) any {
	object := map[string]any{}
	for _, b := range v.branches(0) {
		properties, _ := b["properties"].(map[string]any)
		required, _ := b["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			needed := slices.Contains(required, any(name))
			if object[name] == nil && (needed && depth < 8 || full && depth < 3) {
				object[name] = view{v.root, properties[name]}.sample(depth+1, full)
			}
		}
	}
	return object
}

func (v view) number(keyword string) (float64, bool) {
	for _, b := range v.branches(0) {
		if n, ok := b[keyword].(float64); ok {
			return n, true
		}
	}
	return 0, false
}
