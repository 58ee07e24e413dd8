package openapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawParameters makes up to two parameters for each place. Only one exploded object may stand in a query: nothing says
// whose a member is.
func drawParameters(t *rapid.T, op *operation, args map[string]drawnArgument) {
	styles := map[string][]string{"path": {"simple", "label", "matrix"}, "header": {"simple"}, "cookie": {"form"},
		"query": {"form", "form", "spaceDelimited", "pipeDelimited", "deepObject"}}
	for _, in := range []string{"path", "query", "header", "cookie"} {
		objects := 0
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
				item = rapid.StringMatching(`[!#-+\--~]{1,8}`)
				if kind == "object" {
					item = rapid.StringMatching(`[a-z]{1,8}`)
				}
			case kind == "text" && in != "path":
				item = drawnText
			}
			if kind == "object" && p.explode && (in == "query" && p.style != "deepObject" || in == "cookie") {
				if objects++; objects > 1 {
					continue
				}
			}
			if p.style == "deepObject" && kind == "list" {
				p.explode = true
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

func drawBody(t *rapid.T, op *operation, args map[string]drawnArgument) {
	b := &body{required: true}
	switch rapid.IntRange(0, 5).Draw(t, "body") {
	case 0:
		return
	case 1:
		b.mediaType, b.arg = "text/plain", "body"
		args["body"] = drawnArgument{`{"type":"string"}`, drawnText.Draw(t, "text")}
	case 2:
		b.mediaType, b.arg = "application/octet-stream", "body"
		args["body"] = drawnArgument{`{"type":["string","object"]}`,
			base64.StdEncoding.EncodeToString(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))}
	default:
		b.mediaType = rapid.SampledFrom([]string{"application/json", "application/vnd.api+json", "application/x-www-form-urlencoded",
			"multipart/form-data"}).Draw(t, "type")
		b.fields = map[string]field{}
		for i := range rapid.IntRange(1, 3).Draw(t, "members") {
			m := member{arg: fmt.Sprintf("m%d_body", i), name: fmt.Sprintf("m%d", i)}
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			how := field{style: "form", explode: true}
			switch {
			case strings.HasPrefix(b.mediaType, "multipart/") && kind == "text" && rapid.Bool().Draw(t, "file"):
				how.binary = true
				args[m.arg] = drawnArgument{`{}`,
					map[string]any{"name": "a b.bin", "data": base64.StdEncoding.EncodeToString([]byte(drawnText.Draw(t, "file")))}}
			case strings.HasPrefix(b.mediaType, "multipart/") && kind == "object":
				how.mediaType = "application/json"
				args[m.arg] = drawValue(t, kind, drawnText)
			case kind == "object":
				how.style = "deepObject"
				args[m.arg] = drawValue(t, kind, drawnText)
			default:
				args[m.arg] = drawValue(t, kind, drawnText)
			}
			b.fields[m.name] = how
			b.members = append(b.members, m)
		}
	}
	op.body, op.method = b, "POST"
}

// TestRoundTrip makes up an operation with arguments that fit it; what another decoder reads of the request that comes of
// them must be the arguments again.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		op := operation{name: "op", method: "GET", path: "/a"}
		args := map[string]drawnArgument{}
		drawParameters(t, &op, args)
		drawBody(t, &op, args)
		op.label = op.method + " " + op.path
		properties, given := map[string]json.RawMessage{}, map[string]any{}
		for name, argument := range args {
			properties[name], given[name] = json.RawMessage(argument.schema), argument.value
		}
		declared, err := json.Marshal(properties)
		if err != nil {
			t.Fatal(err)
		}
		op.input = fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":%s}`, declared)
		sent, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		service := newMock(t, "/v1", []operation{op})
		s, err := trySource(Options{Client: mockTransport{service}, BaseURL: "http://api.example.com/v1"}, &document{operations: []operation{op}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		result, err := s.Functions()[0].Call(t.Context(), sent)
		if err != nil {
			t.Fatalf("%+v, the body %+v with %s: %v", op.parameters, op.body, sent, err)
		}
		if want, got := exact(sent), exact(result).(map[string]any)["arguments"]; !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, the body %+v\nsent       %s\nunderstood %s", op.parameters, op.body, sent, result)
		}
	})
}
