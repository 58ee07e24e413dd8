package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// resultForms are the forms of a tool's result, the default first.
var resultForms = []string{steps.ResultStructured, steps.ResultText, steps.ResultContent}

// successValue returns the value of a success in the form that the configuration chose.
func (s *Source) successValue(ctx context.Context, t *tool, result gjson.Result, keeper *blockKeeper) []byte {
	switch t.method {
	case methodRead:
		return resourceValue(result.Get("contents"), keeper)
	case methodPrompt:
		return promptValue(result, keeper)
	}
	structured, blocks := structuredOf(t, result), result.Get("content")
	switch steps.ResultOf(ctx) {
	case steps.ResultText:
		return textsOf(blocks)
	case steps.ResultContent:
		return wholeContent(structured, blocks, keeper)
	}
	switch {
	case structured != "":
		if warn := steps.CallbacksOf(ctx).Warn; warn != nil && tellsMore(structured, blocks) {
			warn(fault.New(fault.TextDropped, "%s also answers with content that its structuredContent does not have, which is left out: "+
				"to get both, write %q under functions in the configuration", t.function, t.function+": {result: content}"))
		}
		return []byte(structured)
	case blocks.Exists():
		return content(blocks, keeper)
	}
	return withoutContent(result)
}

// structuredOf returns the structuredContent of a result; "": none.
func structuredOf(t *tool, result gjson.Result) string {
	structured := result.Get("structuredContent")
	switch {
	case !structured.Exists() || structured.Type == gjson.Null:
		return ""
	case isEmptyArray(structured) && gjson.Get(t.raw, "outputSchema.type").Str == "object":
		return "{}" // as PHP writes it
	}
	return structured.Raw
}

// withoutContent returns the value of a result without content: toolResult (MCP 2024-10-07), or what else it says; null for nothing.
func withoutContent(result gjson.Result) []byte {
	if old := result.Get("toolResult"); old.Exists() {
		return []byte(old.Raw)
	}
	var o objectBuilder
	result.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "_meta", "isError", "resultType", "structuredContent":
		default:
			o.raw(key.Raw[1:len(key.Raw)-1], value.Raw)
		}
		return true
	})
	if o.b.Len() == 0 {
		return []byte("null")
	}
	return o.end()
}

// eachBlock calls f for the blocks of content, which some servers write without the array.
func eachBlock(blocks gjson.Result, f func(block gjson.Result)) {
	if !blocks.IsArray() {
		if blocks.Exists() && blocks.Type != gjson.Null {
			f(blocks)
		}
		return
	}
	blocks.ForEach(func(_, block gjson.Result) bool {
		f(block)
		return true
	})
}

// blockText returns the text of a block of text.
func blockText(block gjson.Result) (text string, ok bool) {
	if block.Type == gjson.String {
		return block.Str, true
	}
	t := block.Get("text")
	return t.Str, t.Type == gjson.String && isTextBlock(block)
}

// textsOf returns the texts of content as one string, a line break between two.
func textsOf(blocks gjson.Result) []byte {
	var texts []string
	eachBlock(blocks, func(block gjson.Result) {
		if text, ok := blockText(block); ok {
			texts = append(texts, text)
		}
	})
	return gjson.AppendJSONString(nil, strings.Join(texts, "\n"))
}

// wholeContent returns {"structured","content":[blocks]}.
func wholeContent(structured string, blocks gjson.Result, keeper *blockKeeper) []byte {
	if structured == "" {
		structured = "null"
	}
	values := []byte(`{"structured":` + structured + `,"content":[`)
	first := true
	eachBlock(blocks, func(block gjson.Result) {
		if !first {
			values = append(values, ',')
		}
		first = false
		values = append(values, wholeBlock(block, keeper)...)
	})
	return append(values, "]}"...)
}

// wholeBlock returns a block as it is, but for binary data.
func wholeBlock(block gjson.Result, keeper *blockKeeper) []byte {
	if _, ok := blockText(block); ok {
		return []byte(block.Raw)
	}
	return blockValue(block, keeper)
}

// tellsMore reports whether content has something that structured, which stands beside it, does not have: a block that is no text, or a
// text that is neither that JSON nor a value in it.
func tellsMore(structured string, blocks gjson.Result) bool {
	more := false
	var values map[string]bool
	eachBlock(blocks, func(block gjson.Result) {
		text, ok := blockText(block)
		switch text = strings.TrimSpace(text); {
		case more || ok && (text == "" || sameJSON(text, structured)):
			return
		case !ok:
			more = true
			return
		}
		if values == nil {
			values = map[string]bool{}
			collectValues(gjson.Parse(structured), values, 0)
		}
		more = !values[text] && !values[compacted(text)]
	})
	return more
}

// sameJSON reports whether two texts are the same JSON value, apart from white space and the order of keys.
func sameJSON(a, b string) bool {
	if a == b || compacted(a) == compacted(b) {
		return true
	}
	decode := func(text string) (value any, ok bool) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		return value, d.Decode(&value) == nil && !d.More()
	}
	x, ok := decode(a)
	if !ok {
		return false
	}
	y, ok := decode(b)
	return ok && reflect.DeepEqual(x, y)
}

// compacted returns JSON without white space between its tokens; any other text stays as it is.
func compacted(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

// valueDepth is how deep values that are no strings are looked for: servers write each element of a list as a text of its own.
const valueDepth = 2

// collectValues adds the texts of the values in v: strings without white space around them, others as compact JSON.
func collectValues(v gjson.Result, values map[string]bool, depth int) {
	switch {
	case v.Type == gjson.String:
		values[strings.TrimSpace(v.Str)] = true
	case depth <= valueDepth:
		values[compacted(v.Raw)] = true
	}
	if v.IsObject() || v.IsArray() {
		v.ForEach(func(_, value gjson.Result) bool {
			collectValues(value, values, depth+1)
			return true
		})
	}
}
