package openapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Generators of argument values.
var (
	anyText = rapid.OneOf(
		rapid.StringN(1, 8, 30),
		rapid.SampledFrom([]string{"a&b=c", "x y", "1,2", "100%", "%2F", "ü/é", "a+b", "#?;", "null", "true", "1.10", "a;b"}),
	)
	plainItem = rapid.StringMatching(`[a-zA-Z0-9_%&=;+/é]{1,8}`) // none of " ", ".", "|" and ",", which some styles refuse in an item
	anyNumber = rapid.SampledFrom([]json.Number{"0", "-1", "1.10", "12345678901234567890", "1e3", "9007199254740993"})
)

// drawValue draws a value. kind is one of kinds; item generates a text, the elements of a list, and the values of an object's members.
func drawValue(t *rapid.T, kind string, item *rapid.Generator[string]) any {
	switch kind {
	case "number":
		return anyNumber.Draw(t, "number")
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	case "list":
		return rapid.SliceOfN(item, 1, 4).Draw(t, "list")
	case "object":
		return rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), item, 1, 4).Draw(t, "object")
	}
	return item.Draw(t, "text")
}

var kinds = []string{"text", "number", "boolean", "list", "object"}

// drawParameters adds up to two parameters for each location to op, and their arguments to args.
func drawParameters(t *rapid.T, op *operation, args map[string]any) {
	styles := map[string][]string{"path": {"simple", "label", "matrix"}, "header": {"simple"}, "cookie": {"form"},
		"query": {"form", "form", "spaceDelimited", "pipeDelimited", "deepObject"}}
	for _, in := range []string{"path", "query", "header", "cookie"} {
		for i := range rapid.IntRange(0, 2).Draw(t, in) {
			p := parameter{name: fmt.Sprintf("X-%s%d", in, i), in: in, required: in == "path"}
			p.arg = strings.ToLower(p.name)
			p.style = rapid.SampledFrom(styles[in]).Draw(t, "style")
			p.explode = rapid.Bool().Draw(t, "explode")
			p.allowReserved = in == "query" && rapid.Bool().Draw(t, "reserved")
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			item := plainItem
			switch {
			case in == "header":
				item = rapid.StringMatching(`[!#-+\--~]{1,8}`) // visible ASCII without the quote and the comma
				if kind == "object" {
					item = rapid.StringMatching(`[a-z]{1,8}`)
				}
			case kind == "text" && in != "path":
				item = anyText
			}
			if in == "query" && kind == "object" && rapid.IntRange(0, 3).Draw(t, "json") == 0 {
				p.mediaType = "application/json"
			}
			if in == "path" {
				op.path += "/{" + p.name + "}"
			}
			args[p.arg] = drawValue(t, kind, item)
			op.parameters = append(op.parameters, p)
		}
	}
}

// drawBody adds a request body, if it draws one, to op, and its arguments to args.
func drawBody(t *rapid.T, op *operation, args map[string]any) {
	b := &body{required: true}
	switch rapid.IntRange(0, 5).Draw(t, "body") {
	case 0:
		return
	case 1:
		b.mediaType, b.arg = "text/plain", "body"
		args["body"] = anyText.Draw(t, "text")
	case 2:
		b.mediaType, b.arg = "application/octet-stream", "body"
		args["body"] = base64.StdEncoding.EncodeToString(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	default:
		b.mediaType = rapid.SampledFrom([]string{"application/json", "application/vnd.api+json", "application/x-www-form-urlencoded",
			"multipart/form-data"}).Draw(t, "type")
		b.fields = map[string]field{}
		for i := range rapid.IntRange(1, 3).Draw(t, "members") {
			m := member{arg: fmt.Sprintf("m%d_body", i), name: fmt.Sprintf("m%d", i)}
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			encoding := field{style: "form", explode: true}
			switch {
			case strings.HasPrefix(b.mediaType, "multipart/") && kind == "text" && rapid.Bool().Draw(t, "file"):
				encoding.binary = true
				args[m.arg] = map[string]any{"name": "a b.bin",
					"data": base64.StdEncoding.EncodeToString([]byte(anyText.Draw(t, "file")))}
			case strings.HasPrefix(b.mediaType, "multipart/") && kind == "object":
				encoding.mediaType = "application/json"
				args[m.arg] = drawValue(t, kind, anyText)
			case kind == "object":
				encoding.style = "deepObject"
				args[m.arg] = drawValue(t, kind, anyText)
			default:
				args[m.arg] = drawValue(t, kind, anyText)
			}
			b.fields[m.name] = encoding
			b.members = append(b.members, m)
		}
	}
	op.body, op.method = b, "POST"
}

// TestRequests calls a drawn operation with drawn valid arguments. checkSent derives the expected request with an RFC 6570 library.
func TestRequests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		op := operation{name: "op", method: "GET", path: "/a", input: json.RawMessage(anyInput)}
		drawn := map[string]any{}
		drawParameters(t, &op, drawn)
		drawBody(t, &op, drawn)
		op.label = op.method + " " + op.path
		args, err := json.Marshal(drawn)
		if err != nil {
			t.Fatal(err)
		}
		var c capture
		s, err := trySource(Options{Client: &c, BaseURL: "http://api.example.com/v1"}, &document{operations: []operation{op}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Functions()[0].Call(t.Context(), args)
		if err == nil {
			err = checkSent(&op, "http://api.example.com/v1", args, c.last)
		}
		if err != nil {
			t.Fatalf("parameters %+v, body %+v, arguments %s: %v", op.parameters, op.body, args, err)
		}
	})
}
