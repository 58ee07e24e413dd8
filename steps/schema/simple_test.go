package schema

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// isSimpleSchema maps schemas to whether they are simple.
var isSimpleSchema = map[string]bool{
	`{}`: true, `true`: true, `{"type":"object"}`: true,
	`{"type":"object","properties":{"a":{"type":"string","description":"x"},"b":{"type":["integer","null"],"minimum":1,` +
		`"maximum":9}},"required":["a"],"additionalProperties":false}`: true,
	`{"type":"object","properties":{"a":{"type":"array","items":{"enum":["x","y",1]}},"c":{"type":"number"},` +
		`"d":{"type":"boolean"}},"x-note":1,"$schema":"https://json-schema.org/draft/2020-12/schema"}`: true,
	`false`: false, `{"pattern":"x"}`: false, `{"$ref":"#/$defs/a","$defs":{"a":{}}}`: false, `{"minLength":1}`: false, `{"allOf":[{}]}`: false,
	`{"required":true}`: false, `{"minimum":1.5}`: false, `{"const":1}`: false, `{"dependentRequired":{}}`: false,
	`{"additionalProperties":{"type":"string"}}`: false, `{"items":{"pattern":"x"}}`: false, `{"properties":{"a":{"pattern":"x"}}}`: true,
}

func TestSimpleSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range isSimpleSchema {
		if got := newSimpleSchema(gjson.Parse(schema), 0) != nil; got != want {
			t.Errorf("newSimpleSchema(%s) succeeds: got %v, want %v", schema, got, want)
		}
	}
	p := newSimpleSchema(gjson.Parse(`{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer","minimum":1,`+
		`"maximum":9},"e":{"enum":["x"]},"l":{"type":"array","items":{"type":"boolean"}},"p":{"pattern":"x"},"f":false},"required":["a"],"additionalProperties":false}`), 0)
	for args, want := range map[string]bool{
		`{"a":"x"}`: true, `{"a":"x","n":1}`: true, `{"a":"x","n":9,"e":"x","l":[true,false]}`: true, `{"a":"\u00e9"}`: true,
		`{"\u0061":"x"}`: true,
		`{}`:             false, `{"n":1}`: false, `{"a":1}`: false, `{"a":"x","n":0}`: false, `{"a":"x","n":10}`: false,
		`{"a":"x","n":1.0}`: false,
		`{"a":"x","n":1e0}`: false,
		`{"a":"x","e":"y"}`: false, `{"a":"x","l":[1]}`: false, `{"a":"x","z":1}`: false, `{"a":null}`: false, `[]`: false,
		`{"a":"x","a":"x"}`: false, `{"a":"x","p":"x"}`: false, `{"a":"x","f":1}`: false,
	} {
		if got := p.accepts(gjson.Parse(args)); got != want {
			t.Errorf("accepts(%s) = %v, want %v", args, got, want)
		}
	}
}

// TestSimpleSchemaRejectsDuplicateKeys: a value with a duplicate key, at any depth, is left to the validator.
func TestSimpleSchemaRejectsDuplicateKeys(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{`{"x":{"y":[{"z":1}]}}`: true, `{"x":{"y":[{"z":1,"z":1}]}}`: false,
		`{"x":[[{"a":1,"\u0061":2}]]}`: false} {
		if got := anySchema.accepts(gjson.Parse(args)); got != want {
			t.Errorf("accepts(%s) = %v, want %v", args, got, want)
		}
	}
}

// TestSimpleSchemaIsSound: the validator accepts all values that a simple schema accepts, for random schemas and values with like names.
func TestSimpleSchemaIsSound(t *testing.T) {
	t.Parallel()
	var schema func(depth int) *rapid.Generator[map[string]any]
	schema = func(depth int) *rapid.Generator[map[string]any] {
		return rapid.Custom(func(t *rapid.T) map[string]any {
			s := map[string]any{}
			if rapid.Bool().Draw(t, "typed") {
				s["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"object", "array", "string", "number", "integer", "boolean", "null"}),
					1, 3, rapid.ID[string]).Draw(t, "type")
			}
			if depth > 0 && rapid.Bool().Draw(t, "object") {
				properties := map[string]any{}
				for _, name := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c"})).Draw(t, "names") {
					properties[name] = schema(depth-1).Draw(t, "property")
					if rapid.IntRange(0, 3).Draw(t, "complex") == 0 {
						properties[name] = map[string]any{"pattern": "^[xy]$"}
					}
				}
				s["properties"] = properties
				s["required"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "d"}), 0, 2, rapid.ID[string]).Draw(t, "required")
				s["additionalProperties"] = rapid.Bool().Draw(t, "open")
			}
			if depth > 0 && rapid.Bool().Draw(t, "list") {
				s["items"] = schema(depth-1).Draw(t, "items")
			}
			if rapid.IntRange(0, 3).Draw(t, "enum") == 0 {
				s["enum"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]any{"x", "y", 1, 2}), 1, 3,
					func(v any) string { text, _ := json.Marshal(v); return string(text) }).Draw(t, "values")
			}
			if rapid.IntRange(0, 3).Draw(t, "bounds") == 0 {
				s["minimum"], s["maximum"] = rapid.IntRange(-2, 1).Draw(t, "min"), rapid.IntRange(1, 3).Draw(t, "max")
			}
			return s
		})
	}
	value := func(t *rapid.T) string {
		var draw func(depth int) any
		draw = func(depth int) any {
			switch rapid.IntRange(0, 7-2*min(1, 2-depth)).Draw(t, "kind") {
			case 0:
				return rapid.SampledFrom([]any{"x", "y", "z", "é"}).Draw(t, "text")
			case 1:
				return json.RawMessage(rapid.SampledFrom([]string{"1", "2", "-3", "1.0", "2.5", "1e0", "12345678901234567890", "-0"}).Draw(t, "number"))
			case 2:
				return rapid.Bool().Draw(t, "bool")
			case 3:
				return nil
			case 4, 5:
				list := []any{}
				for range rapid.IntRange(0, 2).Draw(t, "length") {
					list = append(list, draw(depth-1))
				}
				return list
			}
			object := map[string]any{}
			for _, name := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "keys") {
				if depth > 0 {
					object[name] = draw(depth - 1)
				}
			}
			return object
		}
		object := map[string]any{}
		for _, name := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "members") {
			object[name] = draw(2)
		}
		text, _ := json.Marshal(object)
		return string(text)
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text, _ := json.Marshal(schema(3).Draw(t, "schema"))
		p := newSimpleSchema(gjson.ParseBytes(text), 0)
		if p == nil {
			t.Fatalf("newSimpleSchema rejects %s", text)
		}
		compiled, warnings := Compile(text)
		if warnings != "" {
			t.Fatalf("%s does not compile: %s", text, warnings)
		}
		for range 10 {
			args := value(t)
			if !p.accepts(gjson.Parse(args)) {
				continue
			}
			accepted++
			faults, err := compiled.violations(context.Background(), []byte(args), nil, false)
			if err != nil || len(faults) > 0 {
				t.Fatalf("the simple schema %s accepts %s, want a refusal as by the validator: %v %v", text, args, faults, err)
			}
		}
	})
	if accepted == 0 {
		t.Error("no value was accepted, so nothing was tested")
	}
}
