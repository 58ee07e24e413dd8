package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// rawPair is a part of a query, a form or a cookie line, not unescaped.
type rawPair struct {
	name, value string
	used        bool
}

func rawPairs(text, separator string) (pairs []rawPair) {
	for _, segment := range strings.Split(text, separator) {
		if segment != "" {
			name, value, _ := strings.Cut(segment, "=")
			pairs = append(pairs, rawPair{name: name, value: value})
		}
	}
	return pairs
}

type unescape = func(string) (string, error)

// decodeDelimited reads a value whose parts a separator stands between.
func decodeDelimited(text, separator string, explode bool, mediaType string, schema view, plain unescape) (any, error) {
	switch {
	case mediaType != "":
		whole, err := plain(text)
		if !json.Valid([]byte(whole)) {
			return nil, fmt.Errorf("not JSON: %s", whole)
		}
		return json.RawMessage(whole), err
	case schema.isList():
		texts, err := unescapeAll(strings.Split(text, separator), plain)
		return schema.list(texts), err
	case schema.is("object") && explode:
		var names, values []string
		for _, pair := range rawPairs(text, separator) {
			names, values = append(names, pair.name), append(values, pair.value)
		}
		return textsByName(schema, names, values, plain)
	case schema.is("object"):
		segments := strings.Split(text, separator)
		if len(segments)%2 != 0 {
			return nil, errors.New("an odd number of names and values")
		}
		var names, values []string
		for i := 0; i < len(segments); i += 2 {
			names, values = append(names, segments[i]), append(values, segments[i+1])
		}
		return textsByName(schema, names, values, plain)
	}
	whole, err := plain(text)
	return schema.scalar(whole), err
}

func textsByName(schema view, names, values []string, plain unescape) (any, error) {
	names, err := unescapeAll(names, plain)
	if err != nil {
		return nil, err
	}
	values, err = unescapeAll(values, plain)
	return schema.object(names, values), err
}

func unescapeAll(texts []string, plain unescape) ([]string, error) {
	out := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if out[i], err = plain(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodePairs reads one parameter of a query, a form or a cookie.
func decodePairs(name, style string, explode bool, mediaType string, pairs []rawPair, schema view, plain unescape) (any, bool, error) {
	var arrayValues []string
	for i := range pairs {
		if given, err := plain(pairs[i].name); err == nil && given == name {
			pairs[i].used, arrayValues = true, append(arrayValues, pairs[i].value)
		}
	}
	structured := mediaType == "" && (schema.isList() || schema.is("object") && !schema.is("string"))
	switch {
	case structured && style == "deepObject":
		return decodeDeep(name, pairs, schema, plain)
	case structured && explode && schema.isList():
		texts, err := unescapeAll(arrayValues, plain)
		return schema.list(texts), arrayValues != nil, err
	case structured && explode:
		var names, values []string
		for i := range pairs {
			given, _ := plain(pairs[i].name)
			if member := schema.property(given); member.node != nil && !pairs[i].used {
				pairs[i].used, names, values = true, append(names, pairs[i].name), append(values, pairs[i].value)
			}
		}
		value, err := textsByName(schema, names, values, plain)
		return value, names != nil, err
	case arrayValues == nil:
		return nil, false, nil
	}
	separator := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[style]
	if separator == "" {
		separator = ","
	}
	value, err := decodeDelimited(arrayValues[0], separator, false, mediaType, schema, plain)
	return value, true, err
}

// decodeDeep reads name[key][key]=… into objects, and into arrays where the schema has them.
func decodeDeep(name string, pairs []rawPair, schema view, plain unescape) (any, bool, error) {
	tree := map[string]any{}
	for i := range pairs {
		key, err := plain(pairs[i].name)
		if err != nil {
			return nil, false, err
		}
		if !strings.HasPrefix(key, name+"[") || !strings.HasSuffix(key, "]") {
			continue
		}
		value, err := plain(pairs[i].value)
		if err != nil {
			return nil, false, err
		}
		pairs[i].used = true
		path := strings.Split(strings.TrimSuffix(key[len(name)+1:], "]"), "][")
		at := tree
		for _, step := range path[:len(path)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
		at[path[len(path)-1]] = value
	}
	return typed(tree, schema), len(tree) > 0, nil
}

func typed(value any, schema view) any {
	tree, ok := value.(map[string]any)
	if !ok {
		return schema.scalar(value.(string))
	}
	if schema.is("array") && !schema.is("object") {
		list := make([]any, len(tree))
		for key, element := range tree {
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(list) {
				return tree
			}
			list[i] = typed(element, schema.items())
		}
		return list
	}
	for key, element := range tree {
		tree[key] = typed(element, schema.property(key))
	}
	return tree
}
