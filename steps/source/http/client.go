package http

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/httpbody"
)

// ClientOptions configure NewClient; nil and zero values take the defaults.
type ClientOptions struct {
	Rules *egress.Rules // which hosts may be called; nil: none

	Retries      int           // further attempts of what may be repeated; 0: 3; -1: none
	RetryWaitMin time.Duration // before the first retry, doubled for each further one, with jitter; 0: 500 ms
	RetryWaitMax time.Duration // above it no back-off goes, but a Retry-After may; 0: 10 s

	// CacheBytes bounds the memory for answers that have an ETag or a Last-Modified and are asked for again with it; one
	// answer takes an eighth of it at most. 0: 32 MiB; -1: nothing is kept.
	CacheBytes int64

	UserAgent string // of requests that name none; "": onecall

	// Transport takes the place of the connections, and with them of the check of resolved addresses: for tests.
	Transport http.RoundTripper
}

const (
	defaultRetries      = 3
	defaultRetryWaitMin = 500 * time.Millisecond
	defaultRetryWaitMax = 10 * time.Second
	defaultCacheBytes   = 32 << 20
	defaultUserAgent    = "onecall"
)

// Client sends HTTP requests for every source: to allowed hosts only, again where that is safe and helps, and asking whether
// an answer that is known has changed. It may be used by many goroutines.
type Client struct {
	options ClientOptions
	known   *answers              // of all clients made from one; nil: nothing is kept
	repeats *retryablehttp.Client // for what may be repeated
	once    *http.Client          // for all else: a lost answer must not send a write twice
	closed  atomic.Bool
}

// NewClient makes a client. The caller closes it.
func NewClient(o *ClientOptions) *Client {
	var c ClientOptions
	if o != nil {
		c = *o
	}
	c.Retries = max(cmp.Or(c.Retries, defaultRetries), 0)
	c.RetryWaitMin = cmp.Or(max(c.RetryWaitMin, 0), defaultRetryWaitMin)
	c.RetryWaitMax = max(cmp.Or(c.RetryWaitMax, defaultRetryWaitMax), c.RetryWaitMin)
	c.CacheBytes = cmp.Or(c.CacheBytes, defaultCacheBytes)
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	return newClient(c, newAnswers(c.CacheBytes), nil)
}

func newClient(o ClientOptions, known *answers, dialer *net.Dialer) *Client {
	guarded := o.Rules.Client(&egress.TransportOptions{Base: o.Transport, Dialer: dialer})
	fresh := o.Rules.Transport(&egress.TransportOptions{Base: o.Transport, Dialer: dialer, NoReuse: true})
	guarded.Transport = &wire{next: guarded.Transport, fresh: fresh, known: known}
	c := &Client{options: o, known: known, once: guarded}
	c.repeats = &retryablehttp.Client{
		HTTPClient:   guarded,
		RetryMax:     o.Retries,
		RetryWaitMin: o.RetryWaitMin,
		RetryWaitMax: o.RetryWaitMax,
		CheckRetry:   c.checkRetry,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return c
}

// With makes a client under other rules, with connections of its own; the known answers are the same. The
// caller closes it too.
func (c *Client) With(rules *egress.Rules) *Client { return c.with(rules, nil) }

func (c *Client) with(rules *egress.Rules, dialer *net.Dialer) *Client {
	o := c.options
	o.Rules = rules
	return newClient(o, c.known, dialer)
}

// Close drops the idle connections; calls after it fail with unavailable.
func (c *Client) Close() error {
	c.closed.Store(true)
	c.once.CloseIdleConnections()
	return nil
}

type idempotentKey struct{}

// withIdempotent marks requests made with the context as safe to repeat, whatever their method says: those of a function
// that reads or was declared idempotent.
func withIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

// idempotent reports whether a request may be sent again: its method says so (RFC 9110, section 9.2.2), or its context.
func idempotent(request *http.Request) bool {
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return !httpbody.Writes(request)
	case http.MethodPut, http.MethodDelete:
		return true
	}
	return request.Context().Value(idempotentKey{}) != nil
}

// Do sends a request. A connection that fails and the statuses 429, 502, 503 and 504 are tried again where that is safe,
// with the server's Retry-After honoured; where the wait would outlast the context's deadline (or, without one, 2
// minutes), the answer that is there is the answer. A 304 to a question of the client's own is never seen: the answer is
// the known one, whole. A body without GetBody is read into memory where it may have to be sent again.
//
// Every error is a *fault.Error that shows the host and nothing else of the URL: bad_arguments, denied, limit_exceeded
// (redirects), busy (the rate leaves no room before the deadline), unavailable, timeout, cancelled, function_failed (a
// redirect to what is no URL), with its Outcome. So are those of reading the body, which has no bound; the caller closes
// it. A status of 400 and over is no error.
func (c *Client) Do(request *http.Request) (*http.Response, error) {
	var s sending
	response, err := c.send(&s, request, nil)
	if err != nil {
		return nil, err
	}
	response.Body = &codedBody{response.Body, &s}
	return response, nil
}

// codedBody gives the errors of reading a body their code.
type codedBody struct {
	io.ReadCloser
	s *sending
}

// Read implements io.Reader.
func (b *codedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.s.failed(err)
	}
	return n, err
}

// send sends the request, and has the answer read by read, which closes it; nil: the caller reads it. Reading is part of
// an attempt: a body that breaks off is a failed connection like any other.
func (c *Client) send(s *sending, request *http.Request, read func(*http.Response) error) (*http.Response, error) {
	if err := c.accepts(request); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fault.Unsent(err)
	}
	request = s.watch(request)
	if request.Header == nil || request.Header["User-Agent"] == nil {
		request.Header = request.Header.Clone()
		if request.Header == nil {
			request.Header = http.Header{}
		}
		request.Header.Set("User-Agent", c.options.UserAgent)
	}
	response, err := c.attempts(request, read)
	if err != nil {
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, s.failed(err)
	}
	return response, nil
}

// accepts tells before anything is sent what is wrong with a request.
func (c *Client) accepts(request *http.Request) error {
	if request.URL == nil {
		return fault.New(fault.BadArguments, "the request has no URL")
	}
	if c.closed.Load() {
		return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the HTTP client is closed"}
	}
	return c.options.Rules.Check(request.URL)
}

func (c *Client) attempts(request *http.Request, read func(*http.Response) error) (*http.Response, error) {
	if !idempotent(request) {
		response, err := c.once.Do(request)
		if err == nil && read != nil {
			err = read(response)
		}
		return response, err
	}
	repeated, err := repeatable(request)
	if err != nil {
		return nil, err
	}
	var last *http.Response
	if read != nil {
		repeated.SetResponseHandler(func(response *http.Response) error {
			last = response
			return read(response)
		})
	}
	response, err := c.repeats.Do(repeated)
	if err == nil && read != nil && response != last {
		err = read(response) // that of the last attempt, whose status asked for another
	}
	return response, err
}

// repeatable makes a request that can be sent several times.
func repeatable(request *http.Request) (*retryablehttp.Request, error) {
	if request.Body == nil || request.Body == http.NoBody || request.GetBody == nil {
		return retryablehttp.FromRequest(request)
	}
	again, length := request.GetBody, request.ContentLength
	_ = request.Body.Close()
	request.Body = nil
	repeated, err := retryablehttp.FromRequest(request)
	if err != nil {
		return nil, err
	}
	if err := repeated.SetBody(func() (io.Reader, error) { return again() }); err != nil {
		return nil, err
	}
	repeated.ContentLength, repeated.GetBody = length, again
	return repeated, nil
}

// sending is what is seen of a request on its way.
type sending struct {
	request         *http.Request
	sought, arrived atomic.Bool // a connection was asked for, was there: the request was sent, or may have been
}

func (s *sending) watch(request *http.Request) *http.Request {
	s.request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { s.sought.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { s.arrived.Store(true) },
	}))
	return s.request
}

// failed gives an error of the request its code and its outcome, which takes every attempt and redirect into account.
func (s *sending) failed(err error) *fault.Error {
	f := *egress.Failure(s.request, err)
	switch writes := httpbody.Writes(s.request); {
	case !writes && s.arrived.Load():
		f.Outcome = ""
	case f.Outcome == fault.Applied:
	case writes && s.arrived.Load():
		f.Outcome = fault.SentUnknown
	case writes && s.sought.Load():
		f.Outcome = fault.NotSent
	}
	_, coded := fault.As(err)
	if f.Code == fault.Unavailable && f.Outcome == fault.SentUnknown && !coded {
		f.Message += "; it is not known whether the " + s.request.Method + " was carried out"
	}
	if f.Err == nil {
		f.Err = err
	}
	return &f
}

// wire is what stands between a client and the guarded transport: the rate, and the known answers.
type wire struct {
	next  http.RoundTripper
	fresh http.RoundTripper // for a GET that writes, which net/http must not repeat
	known *answers          // nil: nothing is kept
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	key, known := w.known.ask(request)
	response, err := w.trip(known.question(request))
	if err != nil || key == nil {
		return response, err
	}
	if known == nil || response.StatusCode != http.StatusNotModified {
		w.known.note(*key, response)
		return response, nil
	}
	discard(response)
	if !known.confirmed(response.Header) {
		w.known.drop(*key)
		if response, err = w.trip(request); err == nil {
			w.known.note(*key, response)
		}
		return response, err
	}
	return w.known.again(*key, known, request, response), nil
}

// trip sends a request.
func (w *wire) trip(request *http.Request) (*http.Response, error) {
	if egress.Safe(request.Method) && httpbody.Writes(request) {
		return w.fresh.RoundTrip(request)
	}
	return w.next.RoundTrip(request)
}

// discard reads what little may be left of a body, so that the connection can be used again.
func discard(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	_ = response.Body.Close()
}

// CloseIdleConnections is what http.Client asks of its transport.
func (w *wire) CloseIdleConnections() {
	if c, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
