// Package http offers http.get and http.request, plain HTTP calls to the hosts that the configuration names, and
// http.NAME for each endpoint that it describes. Its Client sends the requests of other sources as well. Package egress
// decides what may be reached.
package http

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/steps"
)

// Options configure New; nil and zero values take the defaults.
type Options struct {
	// Allow names the hosts that may be called, as egress.Parse reads them; none by default. Endpoints need no entry: each
	// may call the hosts that its and the others' URLs name, and http.get and http.request may not because of them.
	Allow []string

	Endpoints []Endpoint

	MaxBodyBytes int64         // of one response, decompressed; 0: 8 MiB; -1: unlimited
	Timeout      time.Duration // of a call, retries included, whose context has no deadline; 0: 2 minutes

	// Client is one whose known answers are shared, such as that of other sources; its rules are not heeded. It
	// stays open. nil: one of its own, made of the fields below as ClientOptions has them.
	Client *Client

	Retries      int
	RetryWaitMin time.Duration
	RetryWaitMax time.Duration
	CacheBytes   int64
	UserAgent    string
	Transport    http.RoundTripper
}

const (
	defaultMaxBodyBytes = 8 << 20
	defaultTimeout      = 2 * time.Minute
)

// Source offers http.get, http.request and the endpoints.
type Source struct {
	maxBody   int64
	timeout   time.Duration
	client    *Client // under the rules of Allow
	named     *Client // of the endpoints
	endpoints []*endpoint
	closed    atomic.Bool
}

// New makes the source. Its error joins a *fault.Error for everything that is wrong, in order (bad_request,
// bad_reference, not_supported, bad_json), with At `/allow/N` or `/endpoints/NAME/FIELD…`; errors.Join gives them
// back by Unwrap() []error. The caller closes the source.
func New(o *Options) (*Source, error) { return newSource(o, nil) }

// newSource makes connections by dialer; nil: the default.
func newSource(o *Options, dialer *net.Dialer) (*Source, error) {
	var c Options
	if o != nil {
		c = *o
	}
	s := &Source{maxBody: cmp.Or(c.MaxBodyBytes, defaultMaxBodyBytes), timeout: cmp.Or(c.Timeout, defaultTimeout)}
	rules, faults := egress.Parse(c.Allow)
	for i, f := range faults {
		faults[i] = f.Under("/allow")
	}
	endpoints, urls, more := compileEndpoints(c.Endpoints)
	faults = append(faults, more...)
	if len(faults) > 0 {
		return nil, joined(faults)
	}
	base := c.Client
	if base == nil {
		base = NewClient(c.client())
	}
	named, err := rules.Naming(urls...)
	if err != nil {
		return nil, err
	}
	s.client, s.named, s.endpoints = base.with(rules, dialer), base.with(named, dialer), endpoints
	return s, nil
}

func (o *Options) client() *ClientOptions {
	return &ClientOptions{Retries: o.Retries, RetryWaitMin: o.RetryWaitMin, RetryWaitMax: o.RetryWaitMax,
		CacheBytes: o.CacheBytes, UserAgent: o.UserAgent, Transport: o.Transport}
}

func joined(faults []*fault.Error) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// Close drops the idle connections; calls after it fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	return errors.Join(s.client.Close(), s.named.Close())
}

const (
	headersSchema = `"headers":{"type":"object","additionalProperties":{"type":"string"}}`
	querySchema   = `"query":{"type":"object","description":"added to the URL's query, escaped; an array repeats its name"}`
	outputSchema  = `{"type":"object","additionalProperties":false,"required":["status","headers","body"],"properties":{` +
		`"status":{"type":"integer"},` +
		`"headers":{"type":"object","description":"in lower case","additionalProperties":{"type":"string"}},` +
		`"body":{"description":"the JSON object or array, else the text, else {binary, type, size}"}}}`
)

// Functions returns http.get, http.request and the endpoints in the order of Options.
func (s *Source) Functions() []steps.Function {
	functions := []steps.Function{
		{
			Spec: steps.Spec{
				Name:        "http.get",
				Description: "Gets a URL of an allowed host. A status of 400 and over is a failure.",
				Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{` +
					`"url":{"type":"string"},` + headersSchema + `,` + querySchema + `}}`),
				Output: json.RawMessage(outputSchema),
				Effect: steps.Read, EffectDeclared: true,
				Redact: redact,
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
				Effect: steps.Write, // until the arguments say more: a GET reads, and so may a POST
				Redact: redact,
			},
			Call: func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, args, "") },
		},
	}
	for _, e := range s.endpoints {
		functions = append(functions, steps.Function{
			Spec: e.spec,
			Call: func(ctx context.Context, args []byte) ([]byte, error) { return s.callEndpoint(ctx, e, args) },
		})
	}
	return functions
}

// open reports whether calls can be made.
func (s *Source) open() error {
	if s.closed.Load() {
		return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the HTTP source is closed"}
	}
	return nil
}

// call carries out one call; method is that of http.get, "" where the arguments say it.
func (s *Source) call(ctx context.Context, args []byte, method string) ([]byte, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	r, err := decode(args, method)
	if err != nil {
		return nil, fault.Unsent(err)
	}
	ctx, cancel := s.limited(ctx, 0)
	defer cancel()
	request, err := s.prepare(ctx, r)
	if err != nil {
		return nil, fault.Unsent(err)
	}
	got, err := s.send(s.client, request)
	if err != nil {
		return nil, err
	}
	return got.result(), nil
}

// limited gives a context its time limit: own, else what the context has, else the source's.
func (s *Source) limited(ctx context.Context, own time.Duration) (context.Context, context.CancelFunc) {
	if own > 0 {
		return context.WithTimeout(ctx, own)
	}
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// send sends the request, again where that is safe and helps, and reads the answer.
func (s *Source) send(client *Client, request *http.Request) (*reply, error) {
	var got *reply
	var status *fault.Error
	host := egress.Host(request.URL)
	_, err := client.send(new(sending), request, func(response *http.Response) (err error) {
		got, status, err = s.readReply(response, host)
		return err
	})
	if err != nil {
		return nil, err
	}
	if status != nil {
		return nil, status
	}
	return got, nil
}
