package http

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/steps"
)

// arguments are the arguments of both functions. http.get has no method and no body.
type arguments struct {
	Method     string                     `json:"method"`
	URL        string                     `json:"url"`
	Headers    map[string]string          `json:"headers"`
	Query      map[string]json.RawMessage `json:"query"`
	Body       json.RawMessage            `json:"body"`
	BodyBase64 *string                    `json:"bodyBase64"`
}

// methods are the allowed methods. CONNECT and TRACE are not allowed: they are for proxies and debuggers.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete}

// decode decodes the arguments. method is the method of http.get; "": the arguments name it. The registry has checked the arguments
// against the schema, but a call without a registry also gets coded errors.
func decode(args []byte, method string) (a arguments, err error) {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return a, &fault.Error{Code: fault.BadArguments, Message: "the arguments do not fit: " + fault.Short(err.Error()), Err: err}
	}
	switch {
	case method != "" && (a.Method != "" || a.Body != nil || a.BodyBase64 != nil):
		return a, fault.New(fault.BadArguments, "http.get has no method and no body: use http.request")
	case method != "":
		a.Method = method
	case !slices.Contains(methods, a.Method):
		f := badArgument("method", "the method must be one of these, in capitals: "+strings.Join(methods, " "))
		f.Available = methods
		return a, f
	case a.BodyBase64 != nil && len(a.Body) > 0 && string(a.Body) != "null":
		return a, badArgument("bodyBase64", "give one of body and bodyBase64")
	}
	return a, nil
}

func badArgument(name, message string) *fault.Error {
	return &fault.Error{Code: fault.BadArguments, Message: message, At: fault.Key("", name)}
}

// prepare builds the request: an allowed URL, valid headers that the caller may set, the body. file is the block that bodyBase64 refers to;
// nil: it is base64.
func (s *Source) prepare(ctx context.Context, a arguments, file *steps.Block) (*http.Request, error) {
	u, err := s.address(a)
	if err != nil {
		return nil, err
	}
	header, err := requestHeader(a.Headers)
	if err != nil {
		return nil, err
	}
	if a.BodyBase64 == nil {
		return newRequest(ctx, a.Method, u, header, a.Body)
	}
	if file == nil {
		decoded, err := base64.StdEncoding.DecodeString(*a.BodyBase64)
		if err != nil {
			return nil, badArgument("bodyBase64", "this is not base64 (RFC 4648, section 4): encode the bytes of the body")
		}
		file = &steps.Block{Bytes: decoded}
	}
	return newBytesRequest(ctx, a.Method, u, header, file.Bytes, cmp.Or(file.MIME, "application/octet-stream"))
}

// newRequest builds a request with a JSON value as its body, encoded as the content type says.
func newRequest(ctx context.Context, method string, u *url.URL, header http.Header, value json.RawMessage) (*http.Request, error) {
	body, contentType, err := encodeBody(value, header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	return newBytesRequest(ctx, method, u, header, body, contentType)
}

// newBytesRequest builds a request with a body; nil: none. contentType is that of a body whose header names none; "": it names one.
func newBytesRequest(
	ctx context.Context, method string, u *url.URL, header http.Header, body []byte, contentType string,
) (*http.Request, error) {
	if contentType != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", contentType)
	}
	var reader io.Reader // stays nil without a body: a reader of a nil slice would count as one
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), reader)
	if err != nil {
		return nil, badArgument("url", "the URL is not valid")
	}
	httpbody.SetTrace(ctx, header)
	httpbody.SetIdempotencyKey(ctx, header)
	request.Header = header
	return request, nil
}

// address returns the URL to call. It checks that the host is allowed, and adds the query argument to the URL's own query.
func (s *Source) address(a arguments) (*url.URL, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, badArgument("url", "the URL is not valid: write it whole, as https://host/path")
	}
	if err := s.client.options.Rules.Check(u); err != nil {
		if f, _ := fault.As(err); f.Code == fault.BadArguments {
			return nil, badArgument("url", f.Message)
		}
		return nil, err
	}
	u.Host, u.Fragment, u.RawFragment = egress.Host(u), "", ""
	values, err := formValues("query", a.Query)
	if err != nil {
		return nil, err
	}
	u.RawQuery = joinQuery(escapeQuery(u.RawQuery), values)
	return u, nil
}

func joinQuery(query string, values url.Values) string {
	encoded := values.Encode()
	if query != "" && encoded != "" {
		return query + "&" + encoded
	}
	return query + encoded
}

// escapeQuery escapes characters that must not appear in a request line, and keeps existing escapes.
func escapeQuery(query string) string {
	var out strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// formValues flattens the members of an object: scalars as written; null is omitted; an array repeats its name.
func formValues(argument string, members map[string]json.RawMessage) (url.Values, error) {
	values := url.Values{}
	for name, raw := range members {
		list := []gjson.Result{gjson.ParseBytes(raw)}
		if list[0].IsArray() {
			list = list[0].Array()
		}
		for _, value := range list {
			switch value.Type {
			case gjson.Null:
			case gjson.String:
				values.Add(name, value.Str)
			case gjson.JSON:
				f := badArgument(argument, "a value must be a string, a number, a boolean or an array of these")
				f.At = fault.Key(f.At, name)
				return nil, f
			default:
				values.Add(name, value.Raw)
			}
		}
	}
	return values, nil
}

// refusedHeaders belong to the connection, not to the caller: they could name another host, change the framing of the
// message, or make the answer unreadable.
var refusedHeaders = map[string]bool{
	"Accept-Encoding": true, "Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Http2-Settings": true,
	"Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// requestHeader checks headers and adds the defaults. Messages name a header and never show its value.
func requestHeader(headers map[string]string) (http.Header, error) {
	header := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(headers)) { // so that the same fault is found each time
		value := headers[name]
		problem := headerProblem(name, value)
		if problem == "" && header[textproto.CanonicalMIMEHeaderKey(name)] != nil {
			problem = "this header is given twice"
		}
		if problem != "" {
			f := badArgument("headers", problem)
			f.At = fault.Key(f.At, name)
			return nil, f
		}
		header.Set(name, value)
	}
	if header["Accept"] == nil {
		header.Set("Accept", "application/json, */*;q=0.8")
	}
	return header, nil
}

// headerProblem says why a header cannot be sent; "" if it can.
func headerProblem(name, value string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "this is not a header name"
	case !httpguts.ValidHeaderFieldValue(value):
		return "the value of this header holds control characters"
	case refusedHeaders[textproto.CanonicalMIMEHeaderKey(name)]:
		return "this header is set by onecall: leave it out"
	}
	return ""
}

const formType = "application/x-www-form-urlencoded"

// encodeBody returns the body to send, nil for none, and the content type to add: "" if there is no body or contentType is set.
func encodeBody(raw json.RawMessage, contentType string) (body []byte, defaultType string, err error) {
	value := gjson.ParseBytes(raw)
	switch mediaType, _, _ := mime.ParseMediaType(contentType); {
	case len(raw) == 0 || value.Type == gjson.Null:
		return nil, "", nil
	case value.Type == gjson.String:
		body, defaultType = []byte(value.Str), "text/plain; charset=utf-8"
	case mediaType == formType:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, "", badArgument("body", "a form must be an object or a string")
		}
		values, err := formValues("body", members)
		if err != nil {
			return nil, "", err
		}
		body = []byte(values.Encode())
	default:
		body, defaultType = raw, "application/json"
	}
	if contentType != "" {
		defaultType = ""
	}
	return body, defaultType, nil
}
