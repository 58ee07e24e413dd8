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

// ClientOptions configure NewClient; nil and zero values are the defaults.
type ClientOptions struct {
	Rules *egress.Rules // which hosts may be called; nil: no host

	Retries      int           // further attempts of a repeatable request; 0: 3; -1: none
	RetryWaitMin time.Duration // the wait before the first retry, doubled for each further one, with jitter; 0: 500 ms
	RetryWaitMax time.Duration // bounds the back-off, but not a Retry-After; 0: 10 s

	// CacheBytes bounds the memory for answers with an ETag or a Last-Modified, which are revalidated; one answer may take
	// an eighth of it. 0: 32 MiB; -1: no cache.
	CacheBytes int64

	UserAgent string // the user agent of requests that set none; "": onecall

	// Transport replaces the connections and the check of resolved addresses, for tests.
	Transport http.RoundTripper
}

const (
	defaultRetries      = 3
	defaultRetryWaitMin = 500 * time.Millisecond
	defaultRetryWaitMax = 10 * time.Second
	defaultCacheBytes   = 32 << 20
	defaultUserAgent    = "onecall"
)

// Client sends the HTTP requests of every source, to allowed hosts only. It retries if that is safe and useful, and revalidates cached
// answers. Many goroutines may use it.
type Client struct {
	options ClientOptions
	cache   *responseCache        // shared by all clients that With derives from one client; nil: no cache
	repeats *retryablehttp.Client // sends repeatable requests
	once    *http.Client          // sends all other requests, because a write must not be sent twice if its answer is lost
	closed  atomic.Bool
}

// NewClient creates a client. The caller closes it.
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
	return newClient(c, newResponseCache(c.CacheBytes), nil)
}

func newClient(o ClientOptions, cache *responseCache, dialer *net.Dialer) *Client {
	guarded := o.Rules.Client(&egress.TransportOptions{Base: o.Transport, Dialer: dialer})
	fresh := o.Rules.Transport(&egress.TransportOptions{Base: o.Transport, Dialer: dialer, NoReuse: true})
	guarded.Transport = &transport{next: guarded.Transport, fresh: fresh, cache: cache}
	c := &Client{options: o, cache: cache, once: guarded}
	c.repeats = &retryablehttp.Client{
		HTTPClient:   guarded,
		RetryMax:     o.Retries,
		RetryWaitMin: o.RetryWaitMin,
		RetryWaitMax: o.RetryWaitMax,
		CheckRetry:   c.checkRetry,
		Backoff:      backoff,
		PrepareRetry: countRetry,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return c
}

// With returns a client with other rules and its own connections, but with the same cache. The caller closes it too.
func (c *Client) With(rules *egress.Rules) *Client { return c.with(rules, nil) }

func (c *Client) with(rules *egress.Rules, dialer *net.Dialer) *Client {
	o := c.options
	o.Rules = rules
	return newClient(o, c.cache, dialer)
}

// Close closes idle connections; later calls fail with unavailable.
func (c *Client) Close() error {
	c.closed.Store(true)
	c.once.CloseIdleConnections()
	return nil
}

type idempotentKey struct{}

// withIdempotent marks a context's requests as safe to repeat, because their function reads or was declared idempotent.
func withIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

// idempotent reports whether a request may be sent again, according to its context or its method (RFC 9110, section 9.2.2); the method does
// not count for a GET, HEAD or OPTIONS that writes nevertheless (httpbody.Writes).
func idempotent(request *http.Request) bool {
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return !httpbody.Writes(request) || request.Context().Value(idempotentKey{}) != nil
	case http.MethodPut, http.MethodDelete:
		return true
	}
	return request.Context().Value(idempotentKey{}) != nil
}

// Do sends a request. It retries a failed connection and the statuses 429, 502, 503 and 504 if that is safe, and honors Retry-After. If
// the wait could outlast the context's deadline (or, without one, 2 minutes), it returns the current answer or error. If the server
// confirms a cached answer with a 304, it returns the whole cached answer. A body without GetBody is read into memory if it may be sent
// again.
//
// Every error is a *fault.Error with its Outcome, and shows nothing of the URL but the host: bad_arguments, denied, limit_exceeded
// (redirects), busy (no rate left before the deadline), unavailable, timeout, cancelled, function_failed (a redirect to an invalid URL).
// Errors from reading the body are of the same kind. The body is not bounded, and the caller closes it. A status of 400 or more is not
// an error.
func (c *Client) Do(request *http.Request) (*http.Response, error) {
	var s requestState
	response, err := c.send(&s, request, nil)
	if err != nil {
		return nil, err
	}
	response.Body = &codedBody{response.Body, &s}
	return response, nil
}

// codedBody gives read errors a code.
type codedBody struct {
	io.ReadCloser
	s *requestState
}

// Read implements io.Reader.
func (b *codedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.s.fault(err)
	}
	return n, err
}

// send sends the request and passes the answer to read, which closes it; if read is nil, the caller reads it. Reading is part of an
// attempt, so a body that breaks off counts as a failed connection.
func (c *Client) send(s *requestState, request *http.Request, read func(*http.Response) error) (*http.Response, error) {
	if err := c.check(request); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fault.MarkUnsent(err)
	}
	request = s.watch(request)
	if request.Header == nil || request.Header["User-Agent"] == nil {
		request.Header = request.Header.Clone()
		if request.Header == nil {
			request.Header = http.Header{}
		}
		request.Header.Set("User-Agent", c.options.UserAgent)
	}
	response, err := c.sendAttempts(request, read)
	if err != nil {
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, s.fault(err)
	}
	return response, nil
}

// check reports, before anything is sent, what is wrong with a request.
func (c *Client) check(request *http.Request) error {
	if request.URL == nil {
		return fault.New(fault.BadArguments, "the request has no URL")
	}
	if c.closed.Load() {
		return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the HTTP client is closed"}
	}
	return c.options.Rules.Check(request.URL)
}

// sendAttempts sends the request as often as it may be and needs to be sent.
func (c *Client) sendAttempts(request *http.Request, read func(*http.Response) error) (*http.Response, error) {
	if !idempotent(request) {
		response, err := c.once.Do(request)
		if err == nil && read != nil {
			err = read(response)
		}
		return response, err
	}
	repeated, err := newRepeatable(request)
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
		err = read(response) // the handler was not called: no attempts are left, although the status asks for another
	}
	return response, err
}

// newRepeatable returns a request that can be sent several times. It takes the body from GetBody; without one, it reads the body into
// memory.
func newRepeatable(request *http.Request) (*retryablehttp.Request, error) {
	if request.Body == nil || request.Body == http.NoBody || request.GetBody == nil {
		return retryablehttp.FromRequest(request)
	}
	getBody, length := request.GetBody, request.ContentLength
	_ = request.Body.Close()
	request.Body = nil
	repeated, err := retryablehttp.FromRequest(request)
	if err != nil {
		return nil, err
	}
	if err := repeated.SetBody(func() (io.Reader, error) { return getBody() }); err != nil {
		return nil, err
	}
	repeated.ContentLength, repeated.GetBody = length, getBody
	return repeated, nil
}

// requestState records how far a request got.
type requestState struct {
	request               *http.Request
	connecting, connected atomic.Bool // a connection was requested, or obtained; once obtained, the request may have been sent
}

// watch returns the request with a trace that records how far it gets.
func (s *requestState) watch(request *http.Request) *http.Request {
	s.request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { s.connecting.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { s.connected.Store(true) },
	}))
	return s.request
}

// fault gives a request's error its code and its outcome, which covers every attempt and redirect.
func (s *requestState) fault(err error) *fault.Error {
	f := *egress.Failure(s.request, err)
	switch writes := httpbody.Writes(s.request); {
	case !writes && s.connected.Load():
		f.Outcome = "" // a request that only reads changes nothing, whether it arrived or not
	case f.Outcome == fault.Applied:
	case writes && s.connected.Load():
		f.Outcome = fault.SentUnknown
	case writes && s.connecting.Load():
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

// transport stands between a client and the guarded transport, and applies the cache.
type transport struct {
	next  http.RoundTripper
	fresh http.RoundTripper // sends a GET that writes, which net/http must not repeat
	cache *responseCache    // nil: no cache
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	key, cached := t.cache.lookup(request)
	response, err := t.send(cached.conditional(request))
	if err != nil || key == nil {
		return response, err
	}
	if cached == nil || response.StatusCode != http.StatusNotModified {
		t.cache.storeWhenRead(*key, response)
		return response, nil
	}
	discard(response)
	if !cached.isConfirmed(response.Header) { // the 304 is about another answer: ask for a whole one
		t.cache.drop(*key)
		if response, err = t.send(request); err == nil {
			t.cache.storeWhenRead(*key, response)
		}
		return response, err
	}
	return t.cache.refresh(*key, cached, request, response), nil
}

// send sends a request; one that writes although its method is safe goes to fresh.
func (t *transport) send(request *http.Request) (*http.Response, error) {
	if egress.SafeMethod(request.Method) && httpbody.Writes(request) {
		return t.fresh.RoundTrip(request)
	}
	return t.next.RoundTrip(request)
}

// discard closes a body after reading what is left of it, at most 4 KiB, so that the connection can be reused.
func discard(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	_ = response.Body.Close()
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
