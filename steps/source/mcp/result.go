package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// value makes the result of a step of the result of a call (MCP 2025-11-25, CallToolResult): its structuredContent, else
// its content. A result that says it is an error becomes one.
func (s *Source) value(ctx context.Context, t *tool, raw []byte) ([]byte, *fault.Error) {
	result := gjson.ParseBytes(raw)
	if problem := malformed(result); problem != "" {
		f := fault.New(fault.FunctionFailed, "%s answered what is no result of a tool: %s. The server is at fault", t.function, problem)
		if t.effect != steps.Read {
			f.Outcome = fault.SentUnknown
		}
		return nil, f
	}
	if result.Get("isError").Type == gjson.True {
		return nil, s.toolFailed(t, result)
	}
	if result.Get("resultType").String() == "input_required" || result.Get("inputRequests").IsObject() {
		return nil, fault.New(fault.NotSupported, "%s asks for further input from a user, which a chain cannot give: call it with all that it needs", t.function)
	}
	if structured := result.Get("structuredContent"); structured.Exists() && structured.Type != gjson.Null {
		return []byte(structured.Raw), nil
	}
	return content(result.Get("content"), keeping(ctx)), nil
}

// malformed says what is wrong with the form of a result; "" where nothing is that matters.
func malformed(result gjson.Result) (problem string) {
	if !result.IsObject() {
		return "it is no object"
	}
	if isError := result.Get("isError"); isError.Exists() && isError.Type != gjson.Null && !isError.IsBool() {
		return "isError is no boolean"
	}
	blocks := result.Get("content")
	if blocks.Exists() && blocks.Type != gjson.Null && !blocks.IsArray() {
		return "content is no array"
	}
	blocks.ForEach(func(_, block gjson.Result) bool {
		kind := block.Get("type")
		switch {
		case !block.IsObject() || kind.Type != gjson.String:
			problem = "a block of content has no type"
		case kind.Str == "text" && block.Get("text").Type != gjson.String:
			problem = "a block of text has no text"
		}
		return problem == ""
	})
	return problem
}

// smallResult is the size of a result, in bytes, of which a value is made in a moment. lateGrace is how long a call goes
// on making its value after the end of its context.
const smallResult, lateGrace = 256 << 10, 50 * time.Millisecond

// valueInTime is value, given up soon after the end of ctx: made is false then.
func (s *Source) valueInTime(ctx context.Context, t *tool, raw []byte) (value []byte, f *fault.Error, made bool) {
	if len(raw) <= smallResult {
		value, f = s.value(ctx, t, raw)
		return value, f, true
	}
	made = inTime(ctx, func() func() {
		v, failed := s.value(ctx, t, raw)
		return func() { value, f = v, failed }
	})
	return value, f, made
}

// inTime does work on a goroutine of its own, and hands over what it comes to on the caller's; false when that was given
// up, soon after the end of ctx.
func inTime(ctx context.Context, work func() (handOver func())) bool {
	if ctx.Done() == nil {
		work()()
		return true
	}
	done := make(chan func(), 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- func() { panic(v) } // where the caller's goroutine catches it
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

// keeping keeps blocks by the callback Keep; a block that is not kept in time has no token, which its descriptor tells. When
// one was given up, no other is tried.
func keeping(ctx context.Context) func(block string) (token string) {
	keep, late := steps.CallbacksOf(ctx).Keep, false
	return func(block string) (token string) {
		if keep == nil || late {
			return ""
		}
		late = !inTime(ctx, func() func() {
			given, err := keep(ctx, []byte(block))
			return func() {
				if err == nil {
					token = given
				}
			}
		})
		return token
	}
}

// toolFailed is the fault of a result with isError.
func (s *Source) toolFailed(t *tool, result gjson.Result) *fault.Error {
	var texts []string
	result.Get("content").ForEach(func(_, block gjson.Result) bool {
		if block.Get("type").Str == "text" {
			texts = append(texts, strings.TrimSpace(block.Get("text").String()))
		}
		return true
	})
	text := strings.TrimSpace(strings.Join(texts, "\n"))
	if text == "" {
		text = t.function + " failed without saying why"
	}
	f := fault.New(fault.FunctionFailed, "%s", fault.Clip(s.scrub.clean(text), maxErrorText))
	body := []byte(result.Get("structuredContent").Raw)
	if len(body) == 0 || string(body) == "null" {
		body = content(result.Get("content"), func(string) string { return "" })
	}
	if compact, err := schema.Compact(s.scrub.JSON(body)); err == nil && len(compact) <= maxBody {
		f.Body = compact
	}
	return f
}

// content makes one value of content blocks: none is null, one is its value, several are an array of theirs. keep keeps
// a block, and gives the token to fetch it by, "" if it is not kept.
func content(blocks gjson.Result, keep func(block string) string) []byte {
	var values [][]byte
	blocks.ForEach(func(_, block gjson.Result) bool {
		values = append(values, blockValue(block, keep))
		return true
	})
	switch {
	case len(values) == 0 || !blocks.IsArray():
		return []byte("null")
	case len(values) == 1:
		return values[0]
	}
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// blockValue is the value of one content block. Text that is a JSON object or array is that value, other text a string;
// text of embedded resources stays within a reduced block; what is binary becomes a descriptor.
func blockValue(block gjson.Result, keep func(string) string) []byte {
	switch block.Get("type").Str {
	case "text":
		return textValue(block.Get("text"))
	case "image", "audio":
		return descriptor(block, block, block.Get("data").Str, keep)
	case "resource":
		resource := block.Get("resource")
		if blob := resource.Get("blob"); blob.Type == gjson.String {
			return descriptor(block, resource, blob.Str, keep)
		}
		var o object
		o.text("type", "resource")
		o.copied(resource, "uri", "mimeType", "text")
		return o.end()
	}
	return []byte(block.Raw) // resource_link, and what is yet to be invented
}

// maxTextDepth bounds the nesting of text that is taken as JSON, well below what a result may have.
const maxTextDepth = 1000

// textValue is the value of a text.
func textValue(text gjson.Result) []byte {
	if text.Type != gjson.String {
		return []byte("null")
	}
	if trimmed := strings.TrimSpace(text.Str); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') &&
		!isDeep(trimmed) && gjson.Valid(trimmed) && utf8.ValidString(trimmed) {
		return []byte(trimmed)
	}
	return []byte(text.Raw)
}

// isDeep reports whether a text nests deeper than maxTextDepth.
func isDeep(text string) bool {
	_, deep := rawjson.Outline(text, maxTextDepth)
	return deep >= 0
}

// descriptor stands for a block of binary data, which holder describes:
//
//	{"type":"image","mimeType":"image/png","size":5120,"continuation_token":"…"}
//
// The whole block is kept under the token; where it is not kept, "kept":false says so. size is that of the data, in bytes.
func descriptor(block, holder gjson.Result, data string, keep func(string) string) []byte {
	var o object
	o.text("type", block.Get("type").Str)
	o.copied(holder, "uri", "mimeType")
	o.raw("size", strconv.Itoa(decodedLength(data)))
	if token := keep(block.Raw); token != "" {
		o.text("continuation_token", token)
	} else {
		o.raw("kept", "false")
	}
	return o.end()
}

// decodedLength is the length of what base64 stands for.
func decodedLength(data string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))
}

// object builds a JSON object.
type object struct{ b bytes.Buffer }

func (o *object) raw(key, value string) {
	if o.b.Len() > 0 {
		o.b.WriteByte(',')
	}
	o.b.WriteString(`"` + key + `":` + value)
}

func (o *object) text(key, value string) {
	quoted, err := json.Marshal(value)
	if err != nil {
		quoted = []byte(`""`)
	}
	o.raw(key, string(quoted))
}

// copied takes over the members that are there.
func (o *object) copied(from gjson.Result, keys ...string) {
	for _, key := range keys {
		if value := from.Get(key); value.Exists() {
			o.raw(key, value.Raw)
		}
	}
}

func (o *object) end() []byte { return []byte("{" + o.b.String() + "}") }
