// Package httpbody is what the sources that call over HTTP have in common: how an answer becomes the result of a step or
// its error, and how the trace of a step goes with a request. It knows nothing of where requests come from, of
// connections or of credentials.
package httpbody

import (
	"bytes"
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

// Read reads a body of at most so many bytes, after decompression; -1: no bound. whole is false, and data nil, where it is
// longer. The error is the body's.
func Read(body io.Reader, most int64) (data []byte, whole bool, err error) {
	if most >= 0 {
		body = io.LimitReader(body, most+1)
	}
	data, err = io.ReadAll(body)
	if most >= 0 && int64(len(data)) > most {
		return nil, false, nil
	}
	return data, true, err
}

// Value is a body as a JSON value: null where it is empty, a JSON object or array as it came but for white space between
// its tokens, other text as a string, and {binary, type, size} in place of what is not text. typed: what its content type
// says is JSON is read as JSON whatever it holds, and promised is false where it is not; without typed promised is true.
func Value(header http.Header, data []byte, typed bool) (value []byte, promised bool) {
	if len(data) == 0 {
		return []byte("null"), true
	}
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	typed = typed && JSONType(mediaType)
	text, isText := decoded(header, data)
	if !isText {
		return Marshal(struct {
			Binary bool   `json:"binary"`
			Type   string `json:"type"`
			Size   int    `json:"size"`
		}{true, mediaType, len(data)}), !typed
	}
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case typed && len(start) == 0:
		return []byte("null"), true
	case typed || len(start) > 0 && (start[0] == '{' || start[0] == '['):
		if compact, err := schema.Compact(text); err == nil || typed {
			return compact, err == nil
		}
	}
	return Marshal(string(text)), true
}

// Writes reports whether a request may change something: by the effect that a configuration gives its function, else by its
// method.
func Writes(request *http.Request) bool {
	declared := steps.Write
	if egress.Safe(request.Method) {
		declared = steps.Read
	}
	return steps.EffectOf(request.Context(), declared) != steps.Read
}

// Refusal is the error of a status that is no success: function_failed with the status and the start of the body, and
// sent_unknown unless the status is 4xx, as a gateway may have given up on the service, or its work be half done. Its message, "answered 404 Not Found", is
// to stand after the name of who has answered. The body is read and left open. typed: as for Value.
func Refusal(request *http.Request, response *http.Response, typed bool) *fault.Error {
	f := fault.New(fault.FunctionFailed, "answered %s", StatusText(response.StatusCode))
	f.Status = response.StatusCode
	if Writes(request) && (f.Status < 400 || f.Status >= 500) {
		f.Outcome = fault.SentUnknown
	}
	// A body that breaks off does not hide the status; one byte more shows that the body goes on.
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody+1))
	if value, promised := Value(response.Header, data, typed); promised && len(data) <= maxErrorBody {
		f.Body = value
	} else {
		f.Body = Excerpt(response.Header, data)
	}
	return f
}

// StatusText is a status as messages show it: "404 Not Found".
func StatusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// Excerpt is the start of a body as a JSON string, at most maxErrorBody bytes of it; nil where it is no text.
func Excerpt(header http.Header, data []byte) []byte {
	end := min(len(data), maxErrorBody)
	for i := 1; i < utf8.UTFMax && end < len(data) && !utf8.RuneStart(data[end]); i++ {
		end-- // no character is cut in two
	}
	cut := data[:end]
	text, ok := decoded(header, cut)
	if !ok {
		return nil
	}
	if len(cut) < len(data) {
		text = append(text[:len(text):len(text)], "…"...)
	}
	return Marshal(string(text))
}

// Marshal encodes v without the escapes for HTML, which would make a text longer for whoever reads it; null for what is
// no JSON.
func Marshal(v any) []byte {
	encoded, err := rawjson.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return encoded
}
