package openapi

import (
	"bytes"
	"encoding/json"

	"pgregory.net/rapid"
)

// drawnArgument is an argument of an operation that a property test makes up.
type drawnArgument struct {
	schema string
	value  any // nil: not given
}

var (
	drawnText = rapid.OneOf(
		rapid.StringN(1, 8, 30),
		rapid.SampledFrom([]string{"a&b=c", "x y", "1,2", "100%", "%2F", "ü/é", "a+b", "#?;", "null", "true", "1.10", "a;b"}),
	)
	plainItem   = rapid.StringMatching(`[a-zA-Z0-9_%&=;+/é]{1,8}`) // nothing that separates in any style
	drawnNumber = rapid.SampledFrom([]json.Number{"0", "-1", "1.10", "12345678901234567890", "1e3", "9007199254740993"})
)

// drawValue makes a value that its place can hold: kind is text, number, boolean, list or object.
func drawValue(t *rapid.T, kind string, item *rapid.Generator[string]) drawnArgument {
	switch kind {
	case "number":
		return drawnArgument{`{"type":"number"}`, drawnNumber.Draw(t, "number")}
	case "boolean":
		return drawnArgument{`{"type":"boolean"}`, rapid.Bool().Draw(t, "boolean")}
	case "list":
		list := []any{}
		for _, text := range rapid.SliceOfN(item, 1, 4).Draw(t, "list") {
			list = append(list, text)
		}
		return drawnArgument{`{"type":"array","items":{"type":"string"}}`, list}
	case "object":
		object := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,5}`), 1, 4, rapid.ID).Draw(t, "names") {
			object[name] = item.Draw(t, "member")
		}
		return drawnArgument{`{"type":"object","additionalProperties":{"type":"string"}}`, object}
	}
	return drawnArgument{`{"type":"string"}`, item.Draw(t, "text")}
}

var kinds = []string{"text", "number", "boolean", "list", "object"}

// exact decodes JSON with its numbers as they are spelled.
func exact(text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	return value
}
