package httpcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/onecall-mcp/onecall/egress"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// maxErrorBody bounds the body that an error carries, in bytes.
const maxErrorBody = 16 << 10

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   []byte // JSON
}

// readReply reads a response, or gives the coded error that its status stands for; err says that the response could not
// be read whole. It closes the body.
func (s *Source) readReply(response *http.Response, host string) (whole *reply, status *fault.Error, err error) {
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 400 {
		return nil, statusFault(response, host), nil
	}
	data, err := s.readBody(response, host)
	if err != nil {
		return nil, nil, err
	}
	body, err := bodyJSON(response.Header, data)
	return &reply{response.StatusCode, response.Header, body}, nil, err
}

// result is {status, headers, body} as JSON.
func (r *reply) result() ([]byte, error) {
	head, err := marshal(struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
	}{r.status, shownHeaders(r.header)})
	if err != nil {
		return nil, err
	}
	result := make([]byte, 0, len(head)+len(r.body)+8)
	result = append(append(result, bytes.TrimSuffix(head, []byte("}"))...), `,"body":`...)
	return append(append(result, r.body...), '}'), nil
}

// statusFault is the error of a status of 400 and over, with the status and the start of the body in it.
func statusFault(response *http.Response, host string) *fault.Error {
	message := fmt.Sprintf("%s answered %d %s", host, response.StatusCode, http.StatusText(response.StatusCode))
	f := &fault.Error{Code: fault.FunctionFailed, Message: strings.TrimSpace(message), Status: response.StatusCode}
	if r := response.Request; r != nil && !egress.Safe(r.Method) && (f.Status == http.StatusBadGateway || f.Status == http.StatusGatewayTimeout) {
		f.Outcome = fault.SentUnknown // a gateway does not know what the service did
	}
	// A body that breaks off does not hide the status; one byte more shows that the body goes on.
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody+1))
	if len(data) <= maxErrorBody {
		f.Body, _ = bodyJSON(response.Header, data)
	} else if text, ok := decodeText(response.Header, trimPartialRune(data[:maxErrorBody])); ok {
		f.Body, _ = marshal(string(text) + "…")
	}
	return f
}

func trimPartialRune(data []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(data); cut++ {
		if tail := data[len(data)-cut:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				data = data[:len(data)-cut]
			}
			break
		}
	}
	return data
}

// readBody reads the body as it is after decompression, within the bound.
func (s *Source) readBody(response *http.Response, host string) ([]byte, error) {
	limit := s.maxBody
	if limit < 0 {
		return io.ReadAll(response.Body)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if int64(len(data)) > limit {
		return nil, fault.New(fault.LimitExceeded, "the body of %s is larger than %d bytes: ask for less, by a page or a range", host, limit)
	}
	return data, err
}

// bodyJSON is the body as a JSON value: null where it is empty, the bytes of a JSON object or array, other text as a
// string, and a description in place of what is not text.
func bodyJSON(header http.Header, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return []byte("null"), nil
	}
	text, ok := decodeText(header, data)
	if !ok {
		mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
		return marshal(struct {
			Binary bool   `json:"binary"`
			Type   string `json:"type"`
			Size   int    `json:"size"`
		}{true, mediaType, len(data)})
	}
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		if compact, err := steps.Compact(text); err == nil {
			return compact, nil
		}
	}
	return marshal(string(text))
}

// decodeText gives the text in UTF-8, and whether it is text: its type says so, or its bytes are those of a text. Bytes
// that are not of the declared character set become U+FFFD.
func decodeText(header http.Header, data []byte) ([]byte, bool) {
	// What is still compressed here was compressed in a way that was not asked for.
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, false
	}
	mediaType, parameters, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if !textual(mediaType) && (!utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0) {
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

func textual(mediaType string) bool {
	if strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+xml") {
		return true
	}
	switch mediaType {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-ndjson", formType:
		return true
	}
	return false
}

// headersShown of a response are those that a later step may need: paging, caching, limits. Never Set-Cookie.
var headersShown = []string{
	"Accept-Ranges", "Age", "Allow", "Cache-Control", "Content-Disposition", "Content-Language",
	"Content-Length", "Content-Range", "Content-Type",
	"Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After", "X-Next-Page", "X-Page", "X-Per-Page",
	"X-Prev-Page", "X-Request-Id", "X-Total", "X-Total-Count", "X-Total-Pages",
}

func shownHeaders(header http.Header) map[string]string {
	shown := map[string]string{}
	for name, values := range header {
		if slices.Contains(headersShown, name) || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit") {
			shown[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return shown
}

// marshal encodes v without the escapes for HTML, which would make a text longer for whoever reads it.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
