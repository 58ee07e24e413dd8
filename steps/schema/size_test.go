package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps/schema"
)

func TestSize(t *testing.T) {
	t.Parallel()
	const page = `{"type":"object","properties":{"items":{"type":"array","minItems":1,"maxItems":3,"items":{"$ref":"#/$defs/item"}},` +
		`"next":{"type":["string","null"],"maxLength":4}},"required":["items"],"additionalProperties":false,` +
		`"$defs":{"item":{"type":"object","properties":{"id":{"type":"integer"},"up":{"$ref":"#/$defs/item"}}}}}`
	key := func(names ...string) (path []schema.Element) {
		for _, name := range names {
			path = append(path, schema.Element{Key: name})
		}
		return path
	}
	for _, test := range []struct {
		schema    string
		path      []schema.Element
		low, high int64
	}{
		{``, nil, 1, -1}, {`{}`, nil, 1, -1}, {`true`, nil, 1, -1},
		{`{"type":"null"}`, nil, 4, 4}, {`{"type":"boolean"}`, nil, 4, 5}, {`{"type":"integer"}`, nil, 1, 20}, {`{"type":"number"}`, nil, 1, 24},
		{`{"type":"string"}`, nil, 2, -1}, {`{"type":"string","minLength":3,"maxLength":5}`, nil, 5, 62}, {`{"type":"string","nullable":true,"maxLength":1}`, nil, 2, 14},
		{`{"enum":["a","bcd"]}`, nil, 3, 38}, {`{"const":true}`, nil, 4, 4}, {`{"enum":[[1]]}`, nil, 2, -1},
		{`{"type":"array","items":{"type":"boolean"},"maxItems":2}`, nil, 2, 13}, {`{"type":"array","maxItems":0}`, nil, 2, 2},
		{`{"type":"array","items":{"type":"boolean"},"minItems":2}`, nil, 11, -1}, {`{"type":"array","maxItems":2}`, nil, 2, -1},
		{`{"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false}`, nil, 10, 22},
		{`{"type":"object","properties":{"a":{"type":"null"}}}`, nil, 2, -1},
		{`{"type":"object","required":["abc"]}`, nil, 6, -1},
		{`{"anyOf":[{"type":"null"},{"type":"boolean"}]}`, nil, 4, 5}, {`{"allOf":[{"type":"string"},{"maxLength":1,"type":"string"}]}`, nil, 2, 14},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"boolean"}}`, []schema.Element{{Key: "0", Index: true}}, 1, -1},
		{`{"type":"array","items":[{"type":"string"}]}`, []schema.Element{{Key: "0", Index: true}}, 1, -1},
		{page, nil, 14, -1}, {page, key("next"), 2, 50}, {page, key("none"), 1, -1},
		{page, []schema.Element{{Key: "items"}, {Key: "0", Index: true}, {Key: "id"}}, 1, 20},
		{page, []schema.Element{{Key: "items"}, {Each: true}, {Key: "id"}}, 1, -1},
	} {
		if low, high := schema.Size([]byte(test.schema), test.path); low != test.low || high != test.high {
			t.Errorf("%s at %v: %d to %d, want %d to %d", test.schema, test.path, low, high, test.low, test.high)
		}
	}
	for _, test := range []struct {
		path      []schema.Element
		low, high int64
	}{{key("items"), 1, 3}, {key("next"), 0, -1}, {nil, 0, -1}, {key("none"), 0, -1}} {
		if low, high := schema.Items([]byte(page), test.path); low != test.low || high != test.high {
			t.Errorf("elements at %v: %d to %d, want %d to %d", test.path, low, high, test.low, test.high)
		}
	}
}

// TestSizeOfManySchemas: a schema that refers to itself in many ways is left after a while.
func TestSizeOfManySchemas(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat(`{"$ref":"#"},`, 50)
	if low, high := schema.Size([]byte(`{"anyOf":[`+wide+`{"type":"boolean"}]}`), nil); low != 1 || high != schema.Unbounded {
		t.Errorf("%d to %d, want 1 and no bound", low, high)
	}
}

// TestSizeHolds: no value that a schema allows is shorter or longer than its bounds, however its texts are spelled.
func TestSizeHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, value := drawSized(t, 3)
		low, high := schema.Size([]byte(text), nil)
		if n := int64(len(value)); n < low || high != schema.Unbounded && n > high {
			t.Fatalf("%s allows %s of %d bytes, bounds %d to %d", text, value, n, low, high)
		}
		if !json.Valid([]byte(value)) {
			t.Fatalf("%s is no JSON", value)
		}
	})
}

// drawSized draws a schema and a value that it allows.
func drawSized(t *rapid.T, depth int) (text, value string) {
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return `{"type":"null"}`, "null"
	case 1:
		return `{"type":["boolean","null"]}`, rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "value")
	case 2:
		return `{"type":"integer"}`, fmt.Sprint(rapid.Int64().Draw(t, "value"))
	case 3:
		encoded, _ := json.Marshal(rapid.Float64().Draw(t, "value"))
		return `{"type":"number"}`, string(encoded)
	case 4:
		s := []rune(rapid.StringN(0, 6, -1).Draw(t, "value"))
		bound := fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d}`, rapid.IntRange(0, len(s)).Draw(t, "least"), len(s))
		if rapid.Bool().Draw(t, "enum") {
			encoded, _ := json.Marshal(string(s))
			bound = fmt.Sprintf(`{"enum":[null,%s]}`, encoded)
		}
		return bound, spell(t, s)
	case 5:
		item, first := drawSized(t, depth-1)
		n := rapid.IntRange(0, 3).Draw(t, "length")
		return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, item, rapid.IntRange(0, n).Draw(t, "least"),
			n+rapid.IntRange(0, 2).Draw(t, "more")), "[" + strings.Join(repeated(first, n), ",") + "]"
	case 6:
		a, one := drawSized(t, depth-1)
		b, _ := drawSized(t, depth-1)
		return fmt.Sprintf(`{"%s":[%s,%s]}`, rapid.SampledFrom([]string{"anyOf", "oneOf"}).Draw(t, "keyword"), b, a), one
	}
	var properties, members, required []string
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		inner, one := drawSized(t, depth-1)
		properties = append(properties, fmt.Sprintf(`"k%d":%s`, i, inner))
		if must := rapid.Bool().Draw(t, "required"); must || rapid.Bool().Draw(t, "given") {
			members = append(members, fmt.Sprintf(`"k%d":%s`, i, one))
			if must {
				required = append(required, fmt.Sprintf(`"k%d"`, i))
			}
		}
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, strings.Join(properties, ","),
		strings.Join(required, ",")), "{" + strings.Join(members, ",") + "}"
}

func repeated(value string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = value
	}
	return list
}

// spell spells a text with or without escapes.
func spell(t *rapid.T, s []rune) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r > 0xFFFF && rapid.Bool().Draw(t, "escaped"):
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		case r <= 0xFFFF && (r < ' ' || r == '"' || r == '\\' || rapid.Bool().Draw(t, "escaped")):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
