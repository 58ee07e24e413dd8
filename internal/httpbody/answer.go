// Package httpbody turns HTTP answers into results or errors of steps, and adds the trace and the idempotency key of a step to requests.
// The sources that call over HTTP share it. It knows nothing of where requests, connections or credentials come from.
package httpbody

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// maxErrorBody bounds the body that an error carries, in bytes.
const maxErrorBody = 16 << 10

// maxAnnounced bounds the memory that a response gets for the length that it announces, before it has sent anything.
const maxAnnounced = 64 << 20

// Read reads a response's body of at most limit bytes after decompression; -1: no limit. If the body is longer, whole is false, and data
// and err are nil. If reading fails before that, err says why, and data is incomplete.
func Read(response *http.Response, limit int64) (data []byte, whole bool, err error) {
	body := io.Reader(response.Body)
	if limit >= 0 {
		body = io.LimitReader(body, limit+1)
	}
	if n := response.ContentLength; n > bytes.MinRead && n <= maxAnnounced && (limit < 0 || n <= limit) {
		buffer := bytes.NewBuffer(make([]byte, 0, n+bytes.MinRead)) // large bodies are not copied while it grows
		_, err = buffer.ReadFrom(body)
		data = buffer.Bytes()
	} else {
		data, err = io.ReadAll(body)
	}
	if limit >= 0 && int64(len(data)) > limit {
		return nil, false, nil
	}
	return data, true, err
}

// Result returns a body as the result of a step: as Value does, and a block of anything else. err says that the run has no memory for it.
func Result(ctx context.Context, header http.Header, data []byte, typed bool) (value []byte, problem string, err error) {
	value, problem = Value(header, data, typed)
	if value != nil || problem != "" {
		return value, problem, nil
	}
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	value, err = steps.KeepBlock(ctx, steps.NewBlock(mediaType, data))
	return value, "", err
}

// Value returns a body as a JSON value: null if it is empty, a JSON object or array compacted, other text as a string, and nil if it is
// anything else. With typed, a JSON content type means JSON of any kind. problem says, for a message after
// "answered 200", why the body has no value: it is not the JSON that its content type promises (with typed only), or that JSON is not
// text, which would lose bytes.
func Value(header http.Header, data []byte, typed bool) (value []byte, problem string) {
	if len(data) == 0 {
		return []byte("null"), ""
	}
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	isJSON := JSONType(mediaType)
	text, kind := decodeText(header, data)
	switch {
	case isJSON && kind == brokenText:
		return nil, "with JSON that is not text: its bytes are not " + charsetName(header)
	case kind == noText && isJSON && typed:
		return nil, notJSON
	case kind == noText:
		return nil, ""
	}
	typed = typed && isJSON
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case typed && len(start) == 0:
		return []byte("null"), ""
	case typed || len(start) > 0 && (start[0] == '{' || start[0] == '['):
		compact, err := schema.Compact(text)
		if err == nil {
			return compact, ""
		} else if typed {
			return nil, notJSON
		}
	}
	return Marshal(string(text)), ""
}

const notJSON = "with a body that is not the JSON that its content type promises"

// Writes reports whether a request may change something: by the effect that the configuration gives its function, else by
// its method.
func Writes(request *http.Request) bool {
	declared := steps.Write
	if egress.SafeMethod(request.Method) {
		declared = steps.Read
	}
	return steps.EffectOf(request.Context(), declared) != steps.Read
}

// Refusal returns the error of a status that is not a success: function_failed with the status and the start of the body.
// If the request may write and the status is not 4xx, the outcome is sent_unknown: a gateway may have given up on the service, or the work
// may be half done. The message is only "answered 404 Not Found", with the reason that a JSON body gives (steps.Reason): the caller puts
// the name of the service in front, and hides secrets. Refusal reads the body
// but does not close it. typed is as in Value.
func Refusal(request *http.Request, response *http.Response, typed bool) *fault.Error {
	f := fault.New(fault.FunctionFailed, "answered %s", StatusText(response.StatusCode))
	f.Status = response.StatusCode
	if Writes(request) && (f.Status < 400 || f.Status >= 500) {
		f.Outcome = fault.SentUnknown
	}
	// A body that breaks off does not hide the status; one extra byte shows that the body continues.
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody+1))
	if value, problem := Value(response.Header, data, typed); value != nil && problem == "" && len(data) <= maxErrorBody {
		f.Body = value
		if reason := steps.Reason(value); reason != "" {
			f.Message += ": " + reason
		}
	} else {
		f.Body = Excerpt(response.Header, data)
	}
	return f
}

// StatusText formats a status for messages: "404 Not Found".
func StatusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// Excerpt returns the start of a body as a JSON string, at most maxErrorBody bytes of it; nil if it is not text.
func Excerpt(header http.Header, data []byte) []byte {
	end := min(len(data), maxErrorBody)
	for i := 1; i < utf8.UTFMax && end < len(data) && !utf8.RuneStart(data[end]); i++ {
		end-- // do not cut a character
	}
	cut := data[:end]
	text, kind := decodeText(header, cut)
	if kind == noText {
		return nil
	}
	if len(cut) < len(data) {
		text = append(text[:len(text):len(text)], "…"...)
	}
	return Marshal(string(text))
}

// Marshal encodes v without escapes for HTML, which would only make it longer; null if v cannot be encoded.
func Marshal(v any) []byte {
	encoded, err := rawjson.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return encoded
}
