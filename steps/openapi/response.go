package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/onecall-mcp/onecall/egress"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// maxErrorBody bounds the body that an error carries, in bytes.
const maxErrorBody = 16 << 10

// read gives the result of a response: its JSON, null where it is empty, other text as a string, and a description in
// place of what is not text. A status of 300 and over is function_failed with the status and the body; so is a body that
// says it is JSON and is not, since its text would be taken for a value.
func (c *call) read(request *http.Request, response *http.Response) ([]byte, error) {
	if response.StatusCode >= 300 {
		return nil, c.refusal(response)
	}
	data, err := readBounded(response.Body, c.source.options.MaxBodyBytes)
	if err != nil {
		return nil, c.failed(request, err)
	}
	if data == nil {
		return nil, c.answered(fault.New(fault.LimitExceeded, "%s answered more than %d bytes: ask for less, by a page or a filter",
			c.name, c.source.options.MaxBodyBytes))
	}
	result, ok := bodyJSON(response.Header, data)
	if !ok {
		f := fault.New(fault.FunctionFailed, "%s (%s) answered %d with a body that is not the JSON that its content type promises",
			c.name, c.op.place, response.StatusCode)
		f.Status, f.Body = response.StatusCode, c.source.secrets.hide(excerpt(response.Header, data))
		return nil, c.answered(f)
	}
	if tell := steps.AttendantOf(request.Context()).Status; tell != nil {
		tell(response.StatusCode)
	}
	return c.source.secrets.hide(result), nil
}

// answered marks the fault of an answer that cannot be used: what the call was to do may well have been done.
func (c *call) answered(f *fault.Error) *fault.Error {
	if !egress.Safe(c.op.method) {
		f.Outcome = fault.SentUnknown
	}
	return f
}

// refusal is the error of a status that is no success.
func (c *call) refusal(response *http.Response) *fault.Error {
	f := fault.New(fault.FunctionFailed, "%s (%s) answered %s", c.name, c.op.place, statusText(response.StatusCode))
	f.Status = response.StatusCode
	if !egress.Safe(c.op.method) && (f.Status == http.StatusBadGateway || f.Status == http.StatusGatewayTimeout) {
		f.Outcome = fault.SentUnknown // a gateway does not know what the service did
	}
	switch {
	case response.StatusCode < 400:
		f.Message += ", a redirect that is not followed"
	case response.StatusCode == http.StatusUnauthorized && len(c.plan.wanting) > 0:
		f.Message += ": it needs a credential that is not configured, auth." + strings.Join(c.plan.wanting, " or auth.")
	case response.StatusCode == http.StatusUnauthorized && len(c.plan.accesses) > 0:
		f.Message += ": look at the credential auth." + c.plan.accesses[0].name
	case response.StatusCode == http.StatusUnauthorized:
		f.Message += ": the document names no credential for it; set one in headers"
	}
	// A body that breaks off does not hide the status; one byte more shows that the body goes on.
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody+1))
	if body, ok := bodyJSON(response.Header, data); ok && len(data) <= maxErrorBody {
		f.Body = c.source.secrets.hide(body)
	} else {
		f.Body = c.source.secrets.hide(excerpt(response.Header, data))
	}
	return f
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// excerpt is the start of a body as a JSON string; null where it is no text.
func excerpt(header http.Header, data []byte) []byte {
	cut := data[:min(len(data), maxErrorBody)]
	for i := 0; i < utf8.UTFMax && len(cut) < len(data) && !utf8.Valid(cut); i++ {
		cut = cut[:len(cut)-1] // a character that is cut in two
	}
	text, ok := decodeText(header, cut)
	if !ok {
		return []byte("null")
	}
	if len(cut) < len(data) {
		text = append(text[:len(text):len(text)], "…"...)
	}
	return marshal(string(text))
}

// readBounded reads a body of at most so many bytes, after decompression; nil without an error where it is longer.
// -1: no bound.
func readBounded(body io.Reader, most int64) ([]byte, error) {
	if most < 0 {
		data, err := io.ReadAll(body)
		if data == nil {
			data = []byte{}
		}
		return data, err
	}
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, nil
	}
	return data, nil
}

// bodyJSON is a body as a JSON value. ok is false where its content type says JSON and it is not.
func bodyJSON(header http.Header, data []byte) (value []byte, ok bool) {
	if len(data) == 0 {
		return []byte("null"), true
	}
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	text, isText := decodeText(header, data)
	if !isText {
		return marshal(struct {
			Binary bool   `json:"binary"`
			Type   string `json:"type"`
			Size   int    `json:"size"`
		}{true, mediaType, len(data)}), !jsonType(mediaType)
	}
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case jsonType(mediaType) && len(start) == 0:
		return []byte("null"), true
	case jsonType(mediaType):
		compact, err := steps.Compact(text)
		return compact, err == nil
	case len(start) > 0 && (start[0] == '{' || start[0] == '['):
		if compact, err := steps.Compact(text); err == nil {
			return compact, true
		}
	}
	return marshal(string(text)), true
}

// decodeText gives the text in UTF-8, and whether it is text: its type says so, or its bytes are those of a text. Bytes
// that are not of the declared character set become U+FFFD.
func decodeText(header http.Header, data []byte) ([]byte, bool) {
	// What is still compressed here was compressed in a way that was not asked for.
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, false
	}
	mediaType, parameters, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if !jsonType(mediaType) && !textType(mediaType) && (!utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0) {
		return nil, false
	}
	charset := parameters["charset"]
	if encoding, err := htmlindex.Get(charset); err == nil && !strings.EqualFold(charset, "utf-8") {
		if decoded, err := encoding.NewDecoder().Bytes(data); err == nil {
			data = decoded
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\ufffd"))
	}
	return data, true
}

// marshal encodes v without the escapes for HTML, which would make a text longer for whoever reads it.
func marshal(v any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
