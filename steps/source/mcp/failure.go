package mcp

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// toolError returns the fault of a result with isError. Its message is the first text, else the reason that the structured content gives;
// its body is what the message does not say, and the text if that is JSON.
func (s *Source) toolError(ctx context.Context, t *tool, result gjson.Result) *fault.Error {
	reason, rest := "", []byte(structuredOf(t, result))
	var others []string
	blocks := result.Get("content")
	if !blocks.Exists() && len(rest) == 0 {
		rest = withoutContent(result)
	}
	eachBlock(blocks, func(block gjson.Result) {
		if text, ok := blockText(block); ok && reason == "" && strings.TrimSpace(text) != "" {
			reason = strings.TrimSpace(text)
		} else {
			others = append(others, block.Raw)
		}
	})
	if value := jsonValue(reason); value != "" && len(rest) == 0 && len(others) == 0 {
		reason, rest = "", []byte(value)
	}
	if len(rest) == 0 && len(others) > 0 {
		rest = content(gjson.Parse("["+strings.Join(others, ",")+"]"), &blockKeeper{})
	}
	if reason == "" {
		reason = steps.Reason(rest)
	}
	f := s.failed(ctx, reason, rest)
	if reason == "" {
		f.Message = t.function + " failed without saying why"
		if len(f.Body) > 0 {
			f.Message = t.function + " failed; what it says is in body"
		}
	}
	return f
}

// failed returns the fault of a call that its server refused for this reason. rest is what the server says besides, as JSON; empty:
// nothing. A long reason is shown with its beginning and its end, and a continuation token for the whole.
func (s *Source) failed(ctx context.Context, reason string, rest []byte) *fault.Error {
	reason = s.scrub.clean(reason)
	f := fault.New(fault.FunctionFailed, "%s", reason)
	if body, err := schema.Compact(s.scrub.JSON(rest)); len(rest) > 0 && err == nil && len(body) <= maxBody && !saysOnly(body, reason) {
		f.Body = body
	}
	if len(reason) <= maxErrorText {
		return f
	}
	f.Message = shortened(reason, keepText(ctx, reason))
	return f
}

// keepText stores a text with the callback Keep, and returns its continuation token; "": it is not stored in time.
func keepText(ctx context.Context, text string) (token string) {
	keep := steps.CallbacksOf(ctx).Keep
	if keep == nil {
		return ""
	}
	inTime(ctx, func() func() {
		stored, err := keep(ctx, gjson.AppendJSONString(nil, text))
		return func() {
			if err == nil {
				token = stored
			}
		}
	})
	return token
}

// shortened returns the beginning and the end of a long text, cut between characters. token fetches the whole text; "": nothing does.
func shortened(text, token string) string {
	head, tail := maxErrorText/2, len(text)-maxErrorText/2
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for !utf8.RuneStart(text[tail]) {
		tail++
	}
	gap := fmt.Sprintf("\n… %d bytes are left out here", tail-head)
	if token != "" {
		gap += "; the whole text has the continuation_token " + token
	}
	return text[:head] + gap + " …\n" + text[tail:]
}

// saysOnly reports whether a body has no other value than the reason.
func saysOnly(body []byte, reason string) bool {
	v := gjson.ParseBytes(body)
	for (v.IsObject() || v.IsArray()) && v.Get("@values.#").Int() == 1 {
		v = v.Get("@values.0")
	}
	return v.Type == gjson.Null || v.Type == gjson.String && strings.TrimSpace(v.Str) == reason
}
