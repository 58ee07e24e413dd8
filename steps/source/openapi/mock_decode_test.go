package openapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// rawPair is a part of a query, a form or a cookie line, not unescaped.
type rawPair struct {
	name, value string
	used        bool
}

func rawPairs(text, separator string) (pairs []rawPair) {
	for _, part := range strings.Split(text, separator) {
		if part != "" {
			name, value, _ := strings.Cut(part, "=")
			pairs = append(pairs, rawPair{name: name, value: value})
		}
	}
	return pairs
}

// decoding is the state of reading one request.
type decoding struct {
	request        *http.Request
	segment        string
	query, cookies []rawPair
}

func (d *decoding) parameter(p *parameter, schema view) (value any, given bool, err error) {
	switch p.in {
	case "path":
		return decodeSegment(p, schema, d.segment)
	case "query":
		return decodePairs(p.name, p.style, p.explode, p.mediaType, d.query, schema, url.PathUnescape) // "+" is a plus
	case "cookie":
		return decodePairs(p.name, "form", p.explode, p.mediaType, d.cookies, schema, url.PathUnescape)
	}
	values := d.request.Header.Values(p.name)
	if len(values) == 0 || p.name == "Accept" && strings.Contains(values[0], "q=0.8") {
		return nil, false, nil
	}
	keep := func(text string) (string, error) { return text, nil }
	value, err = decodeDelimited(values[0], ",", p.explode, p.mediaType, schema, keep)
	return value, true, err
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
		return namedTexts(schema, names, values, plain)
	case schema.is("object"):
		parts := strings.Split(text, separator)
		if len(parts)%2 != 0 {
			return nil, errors.New("an odd number of names and values")
		}
		var names, values []string
		for i := 0; i < len(parts); i += 2 {
			names, values = append(names, parts[i]), append(values, parts[i+1])
		}
		return namedTexts(schema, names, values, plain)
	}
	whole, err := plain(text)
	return schema.scalar(whole), err
}

func namedTexts(schema view, names, values []string, plain unescape) (any, error) {
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

func decodeSegment(p *parameter, schema view, text string) (any, bool, error) {
	separator := ","
	switch p.style {
	case "label":
		if text = strings.TrimPrefix(text, "."); p.explode {
			separator = "."
		}
	case "matrix":
		text = strings.TrimPrefix(text, ";")
		switch {
		case p.explode && schema.isList():
			var texts []string
			for _, pair := range rawPairs(text, ";") {
				texts = append(texts, pair.value)
			}
			texts, err := unescapeAll(texts, url.PathUnescape)
			return schema.list(texts), true, err
		case p.explode && schema.is("object"):
			separator = ";"
		default:
			text = rawPairs(text, ";")[0].value
		}
	}
	value, err := decodeDelimited(text, separator, p.explode, p.mediaType, schema, url.PathUnescape)
	return value, true, err
}

// decodePairs reads one parameter of a query, a form or a cookie.
func decodePairs(name, style string, explode bool, mediaType string, pairs []rawPair, schema view, plain unescape) (any, bool, error) {
	var own []string
	for i := range pairs {
		if given, err := plain(pairs[i].name); err == nil && given == name {
			pairs[i].used, own = true, append(own, pairs[i].value)
		}
	}
	structured := mediaType == "" && (schema.isList() || schema.is("object") && !schema.is("string"))
	switch {
	case structured && style == "deepObject":
		return decodeDeep(name, pairs, schema, plain)
	case structured && explode && schema.isList():
		texts, err := unescapeAll(own, plain)
		return schema.list(texts), own != nil, err
	case structured && explode:
		var names, values []string
		for i := range pairs {
			given, _ := plain(pairs[i].name)
			if member := schema.property(given); member.node != nil && !pairs[i].used {
				pairs[i].used, names, values = true, append(names, pairs[i].name), append(values, pairs[i].value)
			}
		}
		value, err := namedTexts(schema, names, values, plain)
		return value, names != nil, err
	case own == nil:
		return nil, false, nil
	}
	separator := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[style]
	if separator == "" {
		separator = ","
	}
	value, err := decodeDelimited(own[0], separator, false, mediaType, schema, plain)
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

// decodeBody puts the body's arguments into args.
func decodeBody(args map[string]any, b *body, request *http.Request, schema view) error {
	contentType := request.Header.Get("Content-Type")
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	if contentType == "" {
		if n, _ := io.Copy(io.Discard, request.Body); n > 0 {
			return errors.New("a body without a content type")
		}
		return nil
	}
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, m := range b.members {
		names[m.name] = m.arg
	}
	switch mediaType {
	case "multipart/form-data":
		return decodeParts(args, b, multipart.NewReader(request.Body, parameters["boundary"]), schema)
	case "application/x-www-form-urlencoded":
		text, err := io.ReadAll(request.Body)
		if err != nil {
			return err
		}
		pairs := rawPairs(string(text), "&")
		for _, m := range b.members {
			how := b.fields[m.name]
			value, given, err := decodePairs(m.name, how.style, how.explode, how.mediaType, pairs, schema.property(m.arg), url.QueryUnescape)
			if err != nil {
				return err
			}
			if given {
				args[m.arg] = value
			}
		}
		return nil
	}
	text, err := io.ReadAll(request.Body)
	switch isJSON := strings.HasSuffix(mediaType, "json"); {
	case err != nil:
		return err
	case isJSON && b.arg != "":
		args[b.arg] = json.RawMessage(text)
	case isJSON:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			return err
		}
		for name, value := range members {
			if names[name] == "" {
				return fmt.Errorf("the body has %q, which no argument is", name)
			}
			args[names[name]] = value
		}
	case !schema.property(b.arg).is("object"): // bytes may be given with a name, text may not
		args[b.arg] = string(text)
	default:
		args[b.arg] = base64.StdEncoding.EncodeToString(text)
	}
	return nil
}

func decodeParts(args map[string]any, b *body, reader *multipart.Reader, schema view) error {
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(b.members, func(m member) bool { return m.name == part.FormName() })
		if at < 0 {
			return fmt.Errorf("the part %q, which no argument is", part.FormName())
		}
		arg := b.members[at].arg
		of := schema.property(arg)
		var value any
		switch list := of.is("array"); {
		case part.FileName() != "":
			value = base64.StdEncoding.EncodeToString(content)
			if part.FileName() != part.FormName() {
				value = map[string]any{"name": part.FileName(), "data": value}
			}
		case part.Header.Get("Content-Type") == "application/json":
			value = json.RawMessage(content)
		case list:
			value = of.items().scalar(string(content))
		default:
			value = of.scalar(string(content))
		}
		if whole, isJSON := value.(json.RawMessage); of.is("array") && !(isJSON && whole[0] == '[') {
			before, _ := args[arg].([]any)
			args[arg] = append(before, value)
			continue
		}
		args[arg] = value
	}
}
