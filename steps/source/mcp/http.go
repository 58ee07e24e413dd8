package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxIdlePerHost keeps the connections of parallel calls for the next ones.
const maxIdlePerHost = 32

// httpDialer returns the dialer of an HTTP server. All sessions share one HTTP client and its connections.
func (s *Source) httpDialer() dialer {
	client := http.Client{}
	if s.options.HTTPClient != nil {
		client = *s.options.HTTPClient
	} else if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		clone := transport.Clone()
		clone.MaxIdleConnsPerHost = maxIdlePerHost
		client.Transport = clone
		s.closeIdle = clone.CloseIdleConnections
	}
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	return func(t *tap) (sdk.Transport, *process, *fault.Error) {
		tapped := client
		tapped.Transport = newTappedTransport(s, t, client.Transport)
		if s.options.SSE {
			return &sdk.SSEClientTransport{Endpoint: s.options.URL, HTTPClient: &tapped, MaxEventSize: -1}, nil, nil
		}
		return &sdk.StreamableClientTransport{
			Endpoint: s.options.URL, HTTPClient: &tapped, MaxEventSize: -1, OAuthHandler: s.options.OAuth,
		}, nil, nil
	}
}

// dialStdio starts the child process.
func (s *Source) dialStdio(t *tap) (sdk.Transport, *process, *fault.Error) {
	p, f := s.startProcess()
	if f != nil {
		return nil, nil, f
	}
	return newStdioTransport(t, p.stdin, p.stdout, min(discoverTimeout, s.options.StartTimeout/3)), p, nil
}

// tappedTransport is the http.RoundTripper of a connection. It adds the configured headers, records what happens to requests, and
// puts the tap between the answers and the SDK. An unusable answer becomes a JSON-RPC error of its request: the SDK would end the
// whole session.
type tappedTransport struct {
	source       *Source
	tap          *tap
	next         http.RoundTripper
	scheme, host string // those of Options.URL, to which alone the configured headers are sent
}

func newTappedTransport(s *Source, t *tap, next http.RoundTripper) *tappedTransport {
	w := &tappedTransport{source: s, tap: t, next: next}
	if u, err := url.Parse(s.options.URL); err == nil {
		w.scheme, w.host = u.Scheme, u.Host
	}
	return w
}

// RoundTrip implements http.RoundTripper.
func (t *tappedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	pending := pendingOf(request.Context())
	if response := pending.takeResponse(); response != nil {
		if sent := response.Request; sent != nil { // the login handler needs the token that was refused
			request.Header.Del("Authorization")
			if token := sent.Header.Get("Authorization"); token != "" {
				request.Header.Set("Authorization", token)
			}
		}
		response.Request = request
		return response, nil
	}
	id := t.registerSent(request, pending)
	// The SDK also uses a call's context to resume its answer and to cancel it. Failures of those requests say nothing about the call.
	isOurs := id != 0 || pending != nil && pending.stub == nil
	if isOurs {
		pending.markSent()
	}
	response, err := t.next.RoundTrip(t.withHeaders(request))
	if err != nil {
		switch {
		case isOurs:
			pending.markRefused(0, err, !neverSent(err))
		case resumes(request, pending) && neverSent(err) && request.Context().Err() == nil:
			return t.interrupted(request, pending, t.source.errorText(err), true), nil
		}
		return nil, err
	}
	call := id != 0 && !t.source.options.SSE // over HTTP+SSE, the answer does not come in this response
	if !call {
		id = 0
	}
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		status := response.StatusCode
		var body []byte
		if call && !redirects(request, response) {
			body = readRefusal(request, response, id)
		}
		switch {
		case isOurs:
			pending.markRefused(status, nil, applied(status))
		case resumes(request, pending) && !redirects(request, response):
			_ = response.Body.Close()
			return t.interrupted(request, pending, "the server answered "+statusName(response.StatusCode), false), nil
		}
		if call && !t.concernsSession(response.StatusCode) && !redirects(request, response) {
			t.substitute(response, body, pending, id)
		}
		return response, nil
	}
	asked := id
	if id != 0 {
		pending.markAccepted()
	} else if isOurs && !t.source.options.SSE {
		asked = requestID(request) // a greeting
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "text/event-stream":
		response.Body = newEventBody(response.Body, t.tap, requestOf(pending), asked, &t.source.options)
	case resumes(request, pending):
		_ = response.Body.Close()
		return t.interrupted(request, pending, "the server answered no stream", false), nil
	case err == nil && kind == "application/json":
		response.Body = &jsonBody{
			body: response.Body, transport: t, request: pending, id: id, asked: asked, length: response.ContentLength,
		}
	case call:
		t.substitute(response, takeBody(response), pending, id)
	case isOurs && response.StatusCode == http.StatusOK: // no MCP server: the SDK would say that the connection is closed
		_ = response.Body.Close()
		return nil, fault.New(fault.Unavailable, "it answered with %s, which no MCP server does: check its url",
			cmp.Or(kind, "no content type"))
	}
	return response, nil
}

// redirects reports whether http.Client answers the response by sending the same request to another address (RFC 9110, sections 15.4.8
// and 15.4.9). Only addresses of the same host count: what a call sends is for the configured host.
func redirects(request *http.Request, response *http.Response) bool {
	repeats := response.StatusCode == http.StatusTemporaryRedirect || response.StatusCode == http.StatusPermanentRedirect
	address, err := response.Location()
	return repeats && err == nil && address.Hostname() == request.URL.Hostname()
}

// registerSent registers the pending request if the HTTP request carries its JSON-RPC message, and returns its id; else 0.
func (t *tappedTransport) registerSent(request *http.Request, pending *pendingRequest) int64 {
	if pending == nil || pending.stub == nil || request.Method != http.MethodPost {
		return 0
	}
	id := requestID(request)
	if id == 0 || t.tap.register(request.Context(), id) == nil {
		return 0
	}
	return id
}

// resumes reports whether request resumes the answer of a call after its stream broke off (MCP 2025-11-25, "Resumability and
// Redelivery").
func resumes(request *http.Request, pending *pendingRequest) bool {
	return pending != nil && pending.stub != nil && request.Method == http.MethodGet && request.Header.Get("Last-Event-Id") != ""
}

// interrupted ends a request whose answer broke off and cannot be resumed. The SDK would retry for a while or end the whole
// session. down: the server could not be reached.
func (t *tappedTransport) interrupted(request *http.Request, pending *pendingRequest, why string, down bool) *http.Response {
	f := fault.New(fault.Unavailable, "MCP server %q broke off its answer, and the rest could not be fetched (%s): "+
		"it is not known whether the work of the call was done",
		t.source.options.Name, why)
	f.Outcome = fault.SentUnknown
	pending.markInterrupted(f, down)
	response := eventStream("data: " + errorResponse(t.tap.idOf(pending), f) + "\n\n")
	response.Request = request
	return response
}

// eventStream returns a successful response with text as its event stream.
func eventStream(text string) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: int64(len(text)),
		Body: io.NopCloser(strings.NewReader(text)),
	}
}

// requestOf returns the pending request if notifications in its stream belong to it, else nil.
func requestOf(pending *pendingRequest) *pendingRequest {
	if pending != nil && pending.stub != nil {
		return pending
	}
	return nil
}

// withHeaders returns the request with the configured headers if it goes to the configured host. Headers set by the SDK are kept.
func (t *tappedTransport) withHeaders(request *http.Request) *http.Request {
	headers := t.source.options.Headers
	if len(headers) == 0 || request.URL.Scheme != t.scheme || request.URL.Host != t.host {
		return request
	}
	clone := *request
	clone.Header = maps.Clone(request.Header)
	for name, value := range headers {
		if clone.Header.Get(name) == "" {
			clone.Header.Set(name, value)
		}
	}
	if host := clone.Header.Get("Host"); host != "" {
		clone.Host = host
	}
	return &clone
}

// idPrefix is how much of a body is searched for the id, which the SDK writes before the params.
const idPrefix = 256

// requestID returns the id of the JSON-RPC request in an HTTP request; 0: none.
func requestID(request *http.Request) int64 {
	if request.GetBody == nil {
		return 0
	}
	body, err := request.GetBody()
	if err != nil {
		return 0
	}
	defer func() { _ = body.Close() }()
	var prefix [idPrefix]byte
	n, _ := io.ReadFull(body, prefix[:]) // most bodies are shorter
	return gjson.GetBytes(prefix[:n], "id").Int()
}

// neverSent reports whether a round trip failed before the request was sent: in name resolution, connection or certificate checks,
// or because the egress rules forbid the host.
func neverSent(err error) bool {
	var (
		connection  *net.OpError
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	if f, ok := fault.As(err); ok && f != nil {
		return f.Code == fault.Denied || f.Outcome == fault.NotSent
	}
	return errors.As(err, &connection) && (connection.Op == "dial" || connection.Op == "proxyconnect") ||
		errors.As(err, &name) || errors.As(err, &certificate) || errors.As(err, &record)
}

// applied reports whether the request may have been carried out despite the status. A server error can come at any time, and a redirect may
// follow the work; a client error precedes the work.
func applied(status int) bool {
	return status >= 500 || status == http.StatusMovedPermanently || status == http.StatusFound || status == http.StatusSeeOther
}

// concernsSession reports whether a status is about more than one call: credentials, a lost session, or an overloaded server. The
// SDK handles these itself.
func (t *tappedTransport) concernsSession(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// maxRefusalBody bounds the body of a refusal, which is read for its message only.
const maxRefusalBody = 64 << 10

// takeBody reads the body of a response that is no answer of MCP, and leaves it there for the next reader. What came of a broken body is
// enough.
func takeBody(response *http.Response) []byte {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusalBody))
	_ = response.Body.Close()
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return body
}

// substitute replaces a response with this body, which the SDK could not use, with an error of its call. It passes on a JSON-RPC error in
// the body.
func (t *tappedTransport) substitute(response *http.Response, body []byte, pending *pendingRequest, id int64) {
	s := t.source
	f := fault.New(fault.FunctionFailed, "MCP server %q answered the call with HTTP status %d and no "+
		"message of MCP", s.options.Name, response.StatusCode)
	switch {
	case response.StatusCode >= 400:
		f.Status = response.StatusCode
	case response.StatusCode >= 300:
		f.Message += ": it redirects, so write the address to which it redirects as its url"
	}
	if m := parseMessage(string(body)); gjson.ValidBytes(body) && m.err.Exists() {
		pending.setAnswer(&m)
	} else if text := strings.TrimSpace(string(body)); text != "" && !strings.HasPrefix(text, "<") {
		f.Message += ": " + s.scrub.excerpt(text, maxQuoted)
	}
	if pending.unanswered() {
		pending.fail(f)
	}
	text := errorResponse(id, f)
	response.Status, response.StatusCode = "200 OK", http.StatusOK
	response.Header.Set("Content-Type", "application/json")
	response.Header.Del(sessionHeader)
	response.ContentLength = int64(len(text))
	response.Body = io.NopCloser(strings.NewReader(text))
}

// jsonBody is a response of one JSON document, read whole at the first Read.
type jsonBody struct {
	body      io.ReadCloser
	transport *tappedTransport
	request   *pendingRequest
	id        int64 // the id of the call; 0: none
	asked     int64 // the id of the request whose response this is; 0: none
	length    int64 // Content-Length; -1: unknown
	text      *strings.Reader
}

// Read implements io.Reader.
func (b *jsonBody) Read(p []byte) (int, error) {
	if b.text == nil {
		text, err := b.load()
		if err != nil {
			return 0, err
		}
		b.text = strings.NewReader(text)
	}
	return b.text.Read(p)
}

// Close implements io.Closer.
func (b *jsonBody) Close() error { return b.body.Close() }

// load reads the body and returns what the SDK should read of it. An unusable body becomes an error response of its call; if it
// belongs to no call, load returns an error.
func (b *jsonBody) load() (string, error) {
	t := b.transport.tap
	var buffer bytes.Buffer
	if b.length > 0 && b.length <= t.max {
		buffer.Grow(int(b.length) + bytes.MinRead) // avoids growing once more to see the end
	}
	n, err := buffer.ReadFrom(io.LimitReader(b.body, t.max+1))
	text := buffer.String()
	var f *fault.Error
	switch {
	case err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return "", err
	case err != nil:
		f = fault.New(fault.Unavailable, "MCP server %q broke off its answer: it is not known whether the work of the call was done", t.name)
		f.Outcome = fault.SentUnknown
	case n > t.max:
		f = t.tooLong()
	case !gjson.Valid(text):
		f = fault.New(fault.FunctionFailed, "MCP server %q: its answer is not JSON", t.name)
	default:
		return t.filter(text, requestOf(b.request), b.asked), nil
	}
	if b.id == 0 {
		return "", f
	}
	b.request.fail(f)
	return errorResponse(b.id, f), nil
}
