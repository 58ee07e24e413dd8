package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// sample makes a value that a schema accepts, or tries to: all its members down to some depth when full, else those
// that are required.
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

// same compares what was sent with what was understood, as far as a query or a form can tell: by texts, without what is
// null or empty, and a list of one as its element.
func same(a, b any) bool { return reflect.DeepEqual(simplified(a), simplified(b)) }

func simplified(value any) any {
	switch v := value.(type) {
	case []any:
		list := []any{}
		for _, element := range v {
			if s := simplified(element); s != nil {
				list = append(list, s)
			}
		}
		switch len(list) {
		case 0:
			return nil
		case 1:
			return list[0]
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, member := range v {
			if s := simplified(member); s != nil {
				object[name] = s
			}
		}
		if len(object) == 0 {
			return nil
		}
		return object
	case nil:
		return nil
	}
	return fmt.Sprint(value)
}
