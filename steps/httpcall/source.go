// Package httpcall offers http.get and http.request: plain HTTP calls to the hosts that the configuration names, and to
// no other. What a call may reach is decided on its URL, again on every redirect, and again on the address that the host
// name resolved to, so that neither a redirect nor a changing DNS answer leads to a private network.
package httpcall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Options configure New; nil and zero values take the defaults.
type Options struct {
	// Allow names the hosts that may be called; none by default. An entry is `host`, `host:port`, `*.example.com` (every
	// name below example.com, not itself) or one of these after `http://` or `https://`, which then excludes the other
	// scheme. Without a port the scheme's own is meant (80, 443). Private, loopback and other special addresses are
	// reached only where an entry is that very IP address, or `localhost`.
	Allow []string

	MaxBodyBytes int64         // of one response, decompressed; 0: 8 MiB; -1: unlimited
	Retries      int           // further attempts of idempotent methods; 0: 3; -1: none
	RetryWaitMin time.Duration // before the first retry, doubled for each further one, with jitter; 0: 500 ms
	RetryWaitMax time.Duration // above it no back-off goes, but a Retry-After may; 0: 10 s
	Timeout      time.Duration // of a call, retries included, whose context has no deadline; 0: 2 minutes
	UserAgent    string        // "": onecall

	// Transport takes the place of the connections, and with them of the check of resolved addresses: for tests.
	Transport http.RoundTripper
}

const (
	defaultMaxBodyBytes = 8 << 20
	defaultRetries      = 3
	defaultRetryWaitMin = 500 * time.Millisecond
	defaultRetryWaitMax = 10 * time.Second
	defaultTimeout      = 2 * time.Minute
	defaultUserAgent    = "onecall"
	dialTimeout         = 10 * time.Second
	maxRedirects        = 5
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, defaultMaxBodyBytes)
	c.Retries = max(cmp.Or(c.Retries, defaultRetries), 0)
	c.RetryWaitMin = cmp.Or(max(c.RetryWaitMin, 0), defaultRetryWaitMin)
	c.RetryWaitMax = max(cmp.Or(c.RetryWaitMax, defaultRetryWaitMax), c.RetryWaitMin)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	return c
}

// Source offers http.get and http.request.
type Source struct {
	options Options
	allow   allowList
	repeats *retryablehttp.Client // for idempotent methods
	once    *retryablehttp.Client // for all others: a lost answer must not send a write twice
	closed  atomic.Bool
}

// New makes the source; bad_request with At `/allow/N` for an entry of Allow that is none. The caller closes it.
func New(o *Options) (*Source, error) {
	return newSource(o, &net.Dialer{Timeout: dialTimeout})
}

func newSource(o *Options, dialer *net.Dialer) (*Source, error) {
	s := &Source{options: o.withDefaults()}
	var err error
	if s.allow, err = parseAllowList(s.options.Allow); err != nil {
		return nil, err
	}
	transport := s.options.Transport
	if transport == nil {
		transport = newTransport(dialer)
	}
	client := &http.Client{Transport: wellRedirected{transport}, CheckRedirect: s.checkRedirect}
	s.repeats = &retryablehttp.Client{
		HTTPClient:   client,
		RetryMax:     s.options.Retries,
		RetryWaitMin: s.options.RetryWaitMin,
		RetryWaitMax: s.options.RetryWaitMax,
		CheckRetry:   s.checkRetry,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	s.once = &retryablehttp.Client{
		HTTPClient:   client,
		CheckRetry:   func(context.Context, *http.Response, error) (bool, error) { return false, nil },
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return s, nil
}

// Close drops the idle connections; calls after it fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	s.repeats.HTTPClient.CloseIdleConnections()
	return nil
}

const (
	headersSchema = `"headers":{"type":"object","additionalProperties":{"type":"string"}}`
	querySchema   = `"query":{"type":"object","description":"added to the URL's query, escaped; an array repeats its name"}`
	outputSchema  = `{"type":"object","additionalProperties":false,"required":["status","headers","body"],"properties":{` +
		`"status":{"type":"integer"},` +
		`"headers":{"type":"object","description":"in lower case","additionalProperties":{"type":"string"}},` +
		`"body":{"description":"the JSON object or array, else the text, else {binary, type, size}"}}}`
)

// Functions returns http.get and http.request.
func (s *Source) Functions() []steps.Function {
	return []steps.Function{
		{
			Spec: steps.Spec{
				Name:        "http.get",
				Description: "Gets a URL of an allowed host. A status of 400 and over is a failure.",
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{` +
					`"url":{"type":"string"},` + headersSchema + `,` + querySchema + `}}`),
				Output: json.RawMessage(outputSchema),
				Effect: steps.Read, EffectDeclared: true,
				Redact: redact, RedactResult: redactResult,
			},
			Call: func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, args, http.MethodGet) },
		},
		{
			Spec: steps.Spec{
				Name: "http.request",
				Description: "Sends an HTTP request to an allowed host. body: a string is sent as it is, anything else as JSON " +
					"(as a form, if content-type says so). A status of 400 and over is a failure.",
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["method","url"],"properties":{` +
					`"method":{"enum":["GET","HEAD","OPTIONS","POST","PUT","PATCH","DELETE"]},` +
					`"url":{"type":"string"},` + headersSchema + `,` + querySchema + `,"body":{}}}`),
				Output: json.RawMessage(outputSchema),
				Effect: steps.Write, EffectDeclared: true,
				Redact: redact, RedactResult: redactResult,
			},
			Call: func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, args, "") },
		},
	}
}

// call carries out one call; method is that of http.get, "" where the arguments say it.
func (s *Source) call(ctx context.Context, args []byte, method string) ([]byte, error) {
	if s.closed.Load() {
		return nil, fault.New(fault.Unavailable, "the HTTP source is closed")
	}
	r, err := decode(args, method)
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
	}
	request, err := s.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.send(request)
}

// send sends the request, again where that is safe and helps, and reads the answer.
func (s *Source) send(request *retryablehttp.Request) ([]byte, error) {
	client := s.once
	if idempotent(request.Method) {
		client = s.repeats
	}
	var result []byte
	var status *fault.Error
	read := func(response *http.Response) (err error) {
		defer func() { _ = response.Body.Close() }()
		result, status, err = s.read(response, request.URL.Host)
		return err
	}
	// Reading is part of an attempt: a body that breaks off is a failed connection like any other.
	request.SetResponseHandler(read)
	response, err := client.Do(request)
	if err == nil && result == nil && status == nil {
		err = read(response) // the last of several attempts, whose status asked for another
	}
	if err != nil {
		return nil, failed(request, err)
	}
	if status != nil {
		return nil, status
	}
	return result, nil
}

// failed turns what went wrong into a coded error that shows the host and nothing else of the URL.
func failed(request *retryablehttp.Request, err error) *fault.Error {
	if f, ok := fault.As(err); ok {
		return f
	}
	host := request.URL.Host
	// The cause is asked as well: a transport may notice the deadline a moment before the context does.
	switch ctxErr := cmp.Or(request.Context().Err(), err); {
	case errors.Is(ctxErr, context.Canceled):
		return &fault.Error{Code: fault.Cancelled, Message: "the call to " + host + " was cancelled", Err: err}
	case errors.Is(ctxErr, context.DeadlineExceeded):
		return &fault.Error{Code: fault.Timeout, Message: "no complete answer from " + host + " in time", Err: err}
	}
	f := fault.New(fault.Unavailable, "%s could not be reached: %s", host, cause(err))
	f.Err = err
	var connection *net.OpError
	sent := !errors.As(err, &connection) || connection.Op != "dial"
	if sent && !idempotent(request.Method) {
		f.Message += "; it is not known whether the " + request.Method + " was carried out"
	}
	return f
}
