package schema

import "github.com/tidwall/gjson"

// WithDefaults returns an input schema with these defaults in its properties. Arguments with a default are not required. It changes only
// the root; a schema that is not an object, or has no such properties, stays as it is. A property whose own default equals redacted keeps
// it.
func WithDefaults(schema, defaults []byte, redacted string) []byte {
	if len(defaults) == 0 || !gjson.ValidBytes(schema) {
		return schema
	}
	values := map[string]string{}
	gjson.ParseBytes(defaults).ForEach(func(key, value gjson.Result) bool {
		values[key.String()] = value.Raw
		return true
	})
	return mapMembers(schema, func(key string, value gjson.Result) string {
		switch {
		case key == "required" && value.IsArray():
			return string(mapElements(value, func(name gjson.Result) bool { return values[name.String()] == "" }))
		case key == "properties":
			return string(mapMembers([]byte(value.Raw), func(name string, property gjson.Result) string {
				if values[name] == "" || !property.IsObject() || property.Get("default").Str == redacted {
					return property.Raw
				}
				return withDefault(property, values[name])
			}))
		}
		return value.Raw
	})
}

// Defaults returns the defaults of an input schema's properties as an object, for functions that fill them in themselves; nil: it has none.
func Defaults(schema []byte) []byte {
	defaults := mapMembers([]byte(gjson.GetBytes(schema, "properties").Raw), func(_ string, property gjson.Result) string {
		if !property.IsObject() {
			return ""
		}
		return property.Get("default").Raw
	})
	if len(defaults) <= len("{}") {
		return nil
	}
	return defaults
}

// withDefault adds a default to the schema of a property.
func withDefault(property gjson.Result, value string) string {
	without := mapMembers([]byte(property.Raw), func(key string, v gjson.Result) string {
		if key == "default" {
			return ""
		}
		return v.Raw
	})
	member := `"default":` + value + "}"
	if len(without) > 2 {
		member = "," + member
	}
	return string(without[:len(without)-1]) + member
}

// mapMembers rebuilds an object. change returns the new value of each member; "" drops the member. A value that is not an object
// stays as it is.
func mapMembers(object []byte, change func(key string, value gjson.Result) string) []byte {
	root := gjson.ParseBytes(object)
	if !root.IsObject() {
		return object
	}
	out := append(make([]byte, 0, len(object)+64), '{')
	root.ForEach(func(key, value gjson.Result) bool {
		if changed := change(key.String(), value); changed != "" {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(append(out, key.Raw...), ':'), changed...)
		}
		return true
	})
	return append(out, '}')
}

// mapElements rebuilds an array with the elements that keep accepts.
func mapElements(array gjson.Result, keep func(gjson.Result) bool) []byte {
	out := []byte{'['}
	for _, element := range array.Array() {
		if keep(element) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, element.Raw...)
		}
	}
	return append(out, ']')
}
