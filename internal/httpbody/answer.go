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
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// maxErrorBody bounds the body that an error carries, in bytes.
const maxErrorBody = 16 << 10

// maxAnnounced bounds the memory that a response gets for the length that it announces, before it has sent anything.
const maxAnnounced = 64 << 20

// Body is the body of a response.
type Body struct {
	Data []byte

	ctx  context.Context
	room *admit.Room // counts Data
}

// Read reads a response's body of at most limit bytes after decompression; -1: no limit. If the body is longer, whole is false. err says
// why reading has failed, or that there is no memory for the body, which counts for the request of ctx until Release.
func Read(ctx context.Context, response *http.Response, limit int64) (body *Body, whole bool, err error) {
	from, size := io.Reader(response.Body), 0
	if limit >= 0 {
		from = io.LimitReader(from, limit+1)
	}
	if n := response.ContentLength; n <= maxAnnounced && (limit < 0 || n <= limit) {
		size = int(n)
	}
	body = &Body{ctx: ctx, room: admit.NewRoom(ctx)}
	var full error
	body.Data, full, err = body.room.ReadAll(from, size)
	if full != nil {
		err = noMemory(full)
	}
	whole = limit < 0 || int64(len(body.Data)) <= limit
	if err != nil || !whole {
		body.Release()
		body.Data = nil
	}
	return body, whole, err
}

// noMemory is the fault of a body, of a success, for which there is no memory.
func noMemory(err error) error {
	f := *fault.From(err, "")
	f.Outcome = fault.Applied
	return &f
}

// Release counts the body no more.
func (b *Body) Release() { b.room.Release() }

// Result returns the body as the result of a step: as Value does, and a block of anything else. The value counts until Release, too, and a
// block for the run. err says that there is no memory for it.
func (b *Body) Result(header http.Header, typed bool) (value []byte, problem string, err error) {
	if err := b.room.Cover(2 * len(b.Data)); err != nil {
		return nil, "", noMemory(err)
	}
	value, problem = Value(header, b.Data, typed)
	if value != nil || problem != "" {
		return value, problem, nil
	}
	b.Release() // from here on it counts as a block
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if value, err = steps.KeepBlock(b.ctx, steps.NewBlock(mediaType, b.Data)); err != nil {
		return nil, "", noMemory(err)
	}
	return value, "", nil
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
	return rawjson.AppendQuote(make([]byte, 0, len(text)+len(text)/16+2), rawjson.View(text)), ""
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
