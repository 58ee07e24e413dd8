package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// resultValue returns the value of a call's result (MCP 2025-11-25, CallToolResult), in the form that the configuration chose. A result
// with isError becomes a fault.
func (s *Source) resultValue(ctx context.Context, t *tool, raw []byte) ([]byte, *fault.Error) {
	result := gjson.Parse(rawjson.View(raw))
	if problem := malformed(t, result); problem != "" {
		f := fault.New(fault.FunctionFailed, "%s did not answer with %s: %s. The server is at fault; it said %s",
			t.function, t.answerWord(), problem, s.scrub.excerpt(string(raw), maxQuoted))
		if t.effect != steps.Read {
			f.Outcome = fault.SentUnknown
		}
		return nil, f
	}
	if result.Get("isError").Type == gjson.True {
		return nil, s.toolError(ctx, t, result)
	}
	if result.Get("resultType").String() == "input_required" || result.Get("inputRequests").IsObject() {
		return nil, fault.New(fault.NotSupported, "%s asks for further input from a user, which a chain cannot give: "+
			"call it with all that it needs", t.function)
	}
	blocks := &blockKeeper{ctx: ctx}
	value := s.successValue(ctx, t, result, blocks)
	if blocks.err == nil {
		return value, nil
	}
	f := fault.From(blocks.err, "")
	if t.effect != steps.Read {
		f.Outcome = fault.Applied
	}
	return nil, f
}

// malformed describes what is wrong with a result; "": nothing that matters here.
func malformed(t *tool, result gjson.Result) (problem string) {
	if !result.IsObject() {
		return "it is not an object"
	}
	if isError := result.Get("isError"); isError.Exists() && isError.Type != gjson.Null && !isError.IsBool() {
		return "isError is not a boolean"
	}
	return malformedOffer(t, result)
}

// smallResult is the size in bytes up to which a result is converted without a time limit. lateGrace is how long converting a larger result
// may continue after the end of its context.
const smallResult, lateGrace = 256 << 10, 50 * time.Millisecond

// valueInTime is resultValue with a time limit. done is false if it gave up soon after the end of ctx.
func (s *Source) valueInTime(ctx context.Context, t *tool, raw []byte) (value []byte, f *fault.Error, done bool) {
	if len(raw) <= smallResult {
		value, f = s.resultValue(ctx, t, raw)
		return value, f, true
	}
	done = inTime(ctx, func() func() {
		v, failed := s.resultValue(ctx, t, raw)
		return func() { value, f = v, failed }
	})
	return value, f, done
}

// inTime runs work on another goroutine, and then handOver on the caller's. It returns false if it gave up soon after the end of
// ctx.
func inTime(ctx context.Context, work func() (handOver func())) bool {
	if ctx.Done() == nil {
		work()()
		return true
	}
	done := make(chan func(), 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- func() { panic(v) } // the caller's goroutine can recover
			}
		}()
		done <- work()
	}()
	select {
	case handOver := <-done:
		handOver()
		return true
	case <-ctx.Done():
	}
	timer := time.NewTimer(lateGrace)
	defer timer.Stop()
	select {
	case handOver := <-done:
		handOver()
		return true
	case <-timer.C:
		return false
	}
}

// blockKeeper keeps the blocks of a result for its run.
type blockKeeper struct {
	ctx context.Context // nil: no block is kept, and their data is null
	err error           // why the run has no memory for one; nil: it has
}

// keep returns the value of a block of binary data, which holder describes. Data that is no base64 stays in the block, as it is.
func (k *blockKeeper) keep(block, holder gjson.Result, data string) []byte {
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil { // some servers leave out the padding, or use the other alphabet
		other := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(data, "="))
		if decoded, err = base64.RawStdEncoding.DecodeString(other); err != nil {
			return []byte(block.Raw)
		}
	}
	b := &steps.Block{Type: block.Get("type").Str, URI: holder.Get("uri").Str, MIME: holder.Get("mimeType").Str, Bytes: decoded}
	if k.ctx == nil {
		return b.JSON("null")
	}
	value, err := steps.KeepBlock(k.ctx, b)
	k.err = cmp.Or(k.err, err)
	return value
}

// content returns the value of content blocks: null for none, the block's value for one, an array for several. Some servers write one
// block, or its text, in place of the array.
func content(blocks gjson.Result, keeper *blockKeeper) []byte {
	if !blocks.Exists() || blocks.Type == gjson.Null {
		return []byte("null")
	}
	if !blocks.IsArray() {
		return blockValue(blocks, keeper)
	}
	var values [][]byte
	blocks.ForEach(func(_, block gjson.Result) bool {
		values = append(values, blockValue(block, keeper))
		return true
	})
	switch len(values) {
	case 0:
		return []byte("null")
	case 1:
		return values[0]
	}
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// blockValue returns the value of a content block. Text that is a JSON object or array becomes that value, other text a string;
// a resource of text becomes an object with its uri, mimeType and text, and binary data a block. A text without a type is
// text, and anything else stays as it is.
func blockValue(block gjson.Result, keeper *blockKeeper) []byte {
	if block.Type == gjson.String {
		return textValue(block)
	}
	if text := block.Get("text"); text.Type == gjson.String && isTextBlock(block) {
		return textValue(text)
	}
	switch block.Get("type").Str {
	case "image", "audio":
		return keeper.keep(block, block, block.Get("data").Str)
	case "resource":
		resource := block.Get("resource")
		if blob := resource.Get("blob"); blob.Type == gjson.String {
			return keeper.keep(block, resource, blob.Str)
		}
		var o objectBuilder
		o.text("type", "resource")
		o.copyMembers(resource, "uri", "mimeType", "text")
		return o.end()
	}
	return []byte(block.Raw) // resource_link, future types, and what has none
}

// isTextBlock reports whether a block is one of text, or has no type.
func isTextBlock(block gjson.Result) bool {
	kind := block.Get("type")
	return kind.Str == "text" || !kind.Exists()
}

// maxTextDepth bounds the nesting of text that is taken as JSON, well below the limit for results.
const maxTextDepth = 1000

// textValue returns the value of a text; null if it is not a string.
func textValue(text gjson.Result) []byte {
	if text.Type != gjson.String {
		return []byte("null")
	}
	if value := jsonValue(text.Str); value != "" {
		return []byte(value)
	}
	return []byte(text.Raw)
}

// jsonValue returns the JSON object or array that a text is, without white space and a byte order mark before it; "": it is none.
func jsonValue(text string) string {
	trimmed := strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' || isDeep(trimmed) || !gjson.Valid(trimmed) || !utf8.ValidString(trimmed) {
		return ""
	}
	return trimmed
}

// isDeep reports whether text nests deeper than maxTextDepth.
func isDeep(text string) bool {
	_, deep := rawjson.Outline(text, maxTextDepth)
	return deep >= 0
}

// objectBuilder builds a JSON object.
type objectBuilder struct{ b bytes.Buffer }

// raw adds a member. value is JSON; key is written as it is, so it must be escaped already.
func (o *objectBuilder) raw(key, value string) {
	if o.b.Len() > 0 {
		o.b.WriteByte(',')
	}
	o.b.WriteString(`"` + key + `":` + value)
}

// text adds a member whose value is a string.
func (o *objectBuilder) text(key, value string) {
	quoted, err := json.Marshal(value)
	if err != nil {
		quoted = []byte(`""`)
	}
	o.raw(key, string(quoted))
}

// copyMembers copies the members that exist.
func (o *objectBuilder) copyMembers(from gjson.Result, keys ...string) {
	for _, key := range keys {
		if value := from.Get(key); value.Exists() {
			o.raw(key, value.Raw)
		}
	}
}

func (o *objectBuilder) end() []byte { return []byte("{" + o.b.String() + "}") }
