package mcp

import (
	"bytes"
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

// maxIdlePerHost keeps the connections of calls that were made side by side for the next ones.
const maxIdlePerHost = 32

// httpDialer gives the dialer of a server behind HTTP. All sessions share one client, and so its connections.
func (s *Source) httpDialer() dialer {
	client := http.Client{}
	if s.options.HTTPClient != nil {
		client = *s.options.HTTPClient
	} else if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		own := transport.Clone()
		own.MaxIdleConnsPerHost = maxIdlePerHost
		client.Transport = own
		s.free = own.CloseIdleConnections
	}
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	return func(t *tap) (sdk.Transport, *process, *fault.Error) {
		tapped := client
		tapped.Transport = newWire(s, t, client.Transport)
		if s.options.SSE {
			return &sdk.SSEClientTransport{Endpoint: s.options.URL, HTTPClient: &tapped, MaxEventSize: -1}, nil, nil
		}
		return &sdk.StreamableClientTransport{Endpoint: s.options.URL, HTTPClient: &tapped, MaxEventSize: -1, OAuthHandler: s.options.OAuth}, nil, nil
	}
}

// dialStdio starts the child process.
func (s *Source) dialStdio(t *tap) (sdk.Transport, *process, *fault.Error) {
	p, f := s.startProcess()
	if f != nil {
		return nil, nil, f
	}
	return newStdioTransport(t, p.stdin, p.stdout, min(discoverPatience, s.options.StartTimeout/3)), p, nil
}

// wire is where a session's HTTP requests leave and their answers come in. It adds the configured headers, notes what
// becomes of calls, and puts the tap between the answers and the SDK. An answer that cannot be used becomes a JSON-RPC
// error of its call: the SDK would end the whole session.
type wire struct {
	source       *Source
	tap          *tap
	next         http.RoundTripper
	scheme, host string
}

func newWire(s *Source, t *tap, next http.RoundTripper) *wire {
	w := &wire{source: s, tap: t, next: next}
	if u, err := url.Parse(s.options.URL); err == nil {
		w.scheme, w.host = u.Scheme, u.Host
	}
	return w
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	x := exchangeOf(request.Context())
	id := w.carried(request, x)
	// The context of a call goes with further requests too: one that asks for the rest of its answer, one that tells of
	// its cancellation. What becomes of those says nothing about the call.
	own := id != 0 || x != nil && x.stub == nil
	if own {
		x.leaves()
	}
	response, err := w.next.RoundTrip(w.dressed(request))
	if err != nil {
		switch {
		case own:
			x.refused(0, err, !neverSent(err))
		case resumes(request, x) && neverSent(err) && request.Context().Err() == nil:
			return w.interrupted(request, x, w.source.told(err), true), nil
		}
		return nil, err
	}
	call := id != 0 && !w.source.options.SSE
	if !call {
		id = 0
	}
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		switch {
		case own:
			x.refused(response.StatusCode, nil, applied(response.StatusCode))
		case resumes(request, x):
			_ = response.Body.Close()
			return w.interrupted(request, x, "the server answered "+statusName(response.StatusCode), false), nil
		}
		if call && !w.concernsSession(response.StatusCode) {
			w.substitute(response, x, id)
		}
		return response, nil
	}
	if id != 0 {
		x.accepted()
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "text/event-stream":
		response.Body = newEventBody(response.Body, w.tap, ownerOf(x), &w.source.options)
	case resumes(request, x):
		_ = response.Body.Close()
		return w.interrupted(request, x, "the server answered no stream", false), nil
	case err == nil && kind == "application/json":
		response.Body = &jsonBody{body: response.Body, wire: w, exchange: x, id: id, length: response.ContentLength}
	case call:
		w.substitute(response, x, id)
	}
	return response, nil
}

// carried is the id of the exchange's own JSON-RPC request, if the HTTP request carries it, which it notes; else 0.
func (w *wire) carried(request *http.Request, x *exchange) int64 {
	if x == nil || x.stub == nil || request.Method != http.MethodPost {
		return 0
	}
	id := requestID(request)
	if id == 0 || w.tap.register(request.Context(), id) == nil {
		return 0
	}
	return id
}

// resumes reports whether a request asks for the rest of the answer to a call, whose stream broke off (MCP 2025-11-25,
// "Resumability and Redelivery").
func resumes(request *http.Request, x *exchange) bool {
	return x != nil && x.stub != nil && request.Method == http.MethodGet && request.Header.Get("Last-Event-Id") != ""
}

// interrupted ends a call whose answer broke off and cannot be had any more. The SDK would try for a while, or end the
// whole session.
func (w *wire) interrupted(request *http.Request, x *exchange, why string, down bool) *http.Response {
	f := fault.New(fault.Unavailable, "MCP server %q broke off its answer, and the rest of it could not be had (%s): it is not known whether the work of the call was done",
		w.source.options.Name, why)
	f.Outcome = fault.SentUnknown
	x.interrupted(f, down)
	text := "data: " + refusal(w.tap.idOf(x), f) + "\n\n"
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: int64(len(text)),
		Body: io.NopCloser(strings.NewReader(text)), Request: request,
	}
}

// ownerOf is the exchange if it is a call, which notes in its stream belong to.
func ownerOf(x *exchange) *exchange {
	if x != nil && x.stub != nil {
		return x
	}
	return nil
}

// dressed is the request with the configured headers, if it goes to the configured host. Those that the SDK has set
// stay as they are.
func (w *wire) dressed(request *http.Request) *http.Request {
	headers := w.source.options.Headers
	if len(headers) == 0 || request.URL.Scheme != w.scheme || request.URL.Host != w.host {
		return request
	}
	dressed := *request
	dressed.Header = maps.Clone(request.Header)
	for name, value := range headers {
		if dressed.Header.Get(name) == "" {
			dressed.Header.Set(name, value)
		}
	}
	if host := dressed.Header.Get("Host"); host != "" {
		dressed.Host = host
	}
	return &dressed
}

// idPrefix is as far as the id of a request is looked for: the SDK writes it before the parameters.
const idPrefix = 256

// requestID is the id of the JSON-RPC request that an HTTP request carries; 0 when it carries none.
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
	n, _ := io.ReadFull(body, prefix[:]) // most are shorter
	return gjson.GetBytes(prefix[:n], "id").Int()
}

// neverSent tells of an error of a round trip whether it came before the request was sent: the name was not found, the
// connection was refused, the certificate is wrong, or the rules of hosts forbid it.
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

// applied tells of a status whether the request may have been carried out all the same: an error of the server may come
// at any time, and a redirect that is not to repeat the request may follow the work; an error of the client comes before.
func applied(status int) bool {
	return status >= 500 || status == http.StatusMovedPermanently || status == http.StatusFound || status == http.StatusSeeOther
}

// concernsSession tells of a status whether it is about more than one call: credentials, a session that is gone, a
// server that is overloaded or down. The SDK sees those as they are.
func (w *wire) concernsSession(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// maxRefusalBody bounds the body of an answer that is not used but for its message.
const maxRefusalBody = 64 << 10

// substitute makes an answer that the SDK could not use an error of its call. A JSON-RPC error in its body is what is
// passed on.
func (w *wire) substitute(response *http.Response, x *exchange, id int64) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusalBody))
	_ = response.Body.Close()
	if err != nil {
		body = nil
	}
	s := w.source
	f := fault.New(fault.FunctionFailed, "MCP server %q answered the call with HTTP status %d and no message of MCP", s.options.Name, response.StatusCode)
	if response.StatusCode >= 400 {
		f.Status = response.StatusCode
	}
	if gjson.ValidBytes(body) {
		if refused := gjson.GetBytes(body, "error"); x.direct && refused.Get("code").Type == gjson.Number {
			x.answered(&message{err: refused})
		}
		message := gjson.GetBytes(body, "error.message")
		if message.Exists() {
			f.Message = "MCP server " + quoted(s.options.Name) + ": " + s.scrub.excerpt(message.String(), maxErrorText)
		}
	} else if text := strings.TrimSpace(string(body)); text != "" && !strings.HasPrefix(text, "<") {
		f.Message += ": " + s.scrub.excerpt(text, maxQuoted)
	}
	if x.unanswered() {
		x.fail(f)
	}
	text := refusal(id, f)
	response.Status, response.StatusCode = "200 OK", http.StatusOK
	response.Header.Set("Content-Type", "application/json")
	response.Header.Del("Mcp-Session-Id")
	response.ContentLength = int64(len(text))
	response.Body = io.NopCloser(strings.NewReader(text))
}

// jsonBody is an answer of one JSON document, read whole when its reading begins.
type jsonBody struct {
	body     io.ReadCloser
	wire     *wire
	exchange *exchange
	id       int64 // of the call that it answers; 0: of none
	length   int64 // as the header says; -1: unknown
	text     *strings.Reader
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

func (b *jsonBody) load() (string, error) {
	t := b.wire.tap
	var buffer bytes.Buffer
	if b.length > 0 && b.length <= t.max {
		buffer.Grow(int(b.length) + bytes.MinRead) // or it would grow once more to see the end
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
		f = fault.New(fault.FunctionFailed, "MCP server %q answered what is not JSON", t.name)
	default:
		return t.filter(text, ownerOf(b.exchange)), nil
	}
	if b.id == 0 {
		return "", f
	}
	b.exchange.fail(f)
	return refusal(b.id, f), nil
}
