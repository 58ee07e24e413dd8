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
	"strings"
)

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
		return decodeMultipart(args, b, multipart.NewReader(request.Body, parameters["boundary"]), schema)
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

func decodeMultipart(args map[string]any, b *body, reader *multipart.Reader, schema view) error {
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
