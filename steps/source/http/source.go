// Package http offers http.get and http.request, plain HTTP calls to the hosts that the configuration names, and http.NAME
// for each configured endpoint. Its Client also sends the requests of other sources. Package egress decides which hosts may
// be reached.
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

// Options configure New; nil and zero values are the defaults.
type Options struct {
	// Allow lists the hosts that http.get and http.request may call, in the form of egress.Parse; default none. Endpoints need no
	// entry: they may call the hosts of all endpoints' URLs.
	Allow []string

	Endpoints []Endpoint

	MaxBodyBytes int64         // the maximum bytes of one response, decompressed; 0: 8 MiB; -1: unlimited
	Timeout      time.Duration // the time limit of a call, including retries, if neither its context nor its endpoint has one; 0: 2 minutes

	// Client is a client whose cache and settings the source uses, for instance to share them with other sources; its rules do not apply. The
	// source does not close it. nil: a new client with the fields below, as in ClientOptions.
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
	maxBody        int64
	timeout        time.Duration
	client         *Client // calls hosts by the rules of Allow
	endpointClient *Client // calls these and the hosts of all endpoints
	endpoints      []*endpoint
	closed         atomic.Bool
}

// New creates the source. Its error joins all faults in order (bad_request, bad_reference, not_supported, bad_json), with
// At `/allow/N` or `/endpoints/NAME/FIELD…`; Unwrap() []error returns them. The caller closes the source.
func New(o *Options) (*Source, error) { return newSource(o, nil) }

// newSource is New with a dialer for connections; nil: the default.
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
	endpoints, urls, endpointFaults := compileEndpoints(c.Endpoints)
	faults = append(faults, endpointFaults...)
	if len(faults) > 0 {
		return nil, joinFaults(faults)
	}
	base := c.Client
	if base == nil {
		base = NewClient(c.client())
	}
	endpointRules, err := rules.WithURLs(urls...)
	if err != nil {
		return nil, err
	}
	s.client, s.endpointClient, s.endpoints = base.with(rules, dialer), base.with(endpointRules, dialer), endpoints
	return s, nil
}

func (o *Options) client() *ClientOptions {
	return &ClientOptions{Retries: o.Retries, RetryWaitMin: o.RetryWaitMin, RetryWaitMax: o.RetryWaitMax,
		CacheBytes: o.CacheBytes, UserAgent: o.UserAgent, Transport: o.Transport}
}

func joinFaults(faults []*fault.Error) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// Close closes idle connections; later calls fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	return errors.Join(s.client.Close(), s.endpointClient.Close())
}

const (
	headersSchema = `"headers":{"type":"object","additionalProperties":{"type":"string"}}`
	querySchema   = `"query":{"type":"object","description":"added to the URL's query, escaped; an array repeats its name"}`
	outputSchema  = `{"type":"object","additionalProperties":false,"required":["status","headers","body"],"properties":{` +
		`"status":{"type":"integer"},` +
		`"headers":{"type":"object","description":"in lower case","additionalProperties":{"type":"string"}},` +
		`"body":{"description":"the JSON object or array, else the text, else a block"}}}`
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
					`"url":{"type":"string"},` + headersSchema + `,` + querySchema + `,"body":{},` +
					`"bodyBase64":{"type":"string","description":"bytes, in place of body"}}}`),
				Output:     json.RawMessage(outputSchema),
				TakesMarks: true,
				Effect:     steps.Write, // the effect until the arguments are known: a GET reads, and so may a POST
				Redact:     redact,
			},
			Call: func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, args, "") },
		},
	}
	for _, e := range s.endpoints {
		call := func(ctx context.Context, args []byte) ([]byte, error) { return s.callEndpoint(ctx, e, args) }
		if e.own != nil {
			call = e.own.Carry(call)
		}
		functions = append(functions, steps.Function{Spec: e.spec, Call: call})
	}
	return functions
}

// checkOpen returns an error if the source is closed.
func (s *Source) checkOpen() error {
	if s.closed.Load() {
		return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the HTTP source is closed"}
	}
	return nil
}

// call calls http.get or http.request. method is GET for http.get; "" for http.request, whose method is in the arguments.
func (s *Source) call(ctx context.Context, args []byte, method string) ([]byte, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	file, args := steps.CallbacksOf(ctx).Blocks.Take(args, "bodyBase64")
	a, err := decode(args, method)
	if err != nil {
		return nil, fault.MarkUnsent(err)
	}
	ctx, cancel := s.withTimeout(ctx, 0)
	defer cancel()
	request, err := s.prepare(ctx, a, file)
	if err != nil {
		return nil, fault.MarkUnsent(err)
	}
	reply, err := s.send(s.client, request)
	if err != nil {
		return nil, err
	}
	return reply.result(), nil
}

// withTimeout adds a time limit to a context: timeout if it is positive, else the source's limit if the context has no deadline. An earlier
// deadline of the context stays.
func (s *Source) withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// send sends the request, with retries if they are safe and useful, and reads the answer.
func (s *Source) send(client *Client, request *http.Request) (*reply, error) {
	var answer *reply
	var status *fault.Error
	host := egress.Host(request.URL)
	_, err := client.send(new(requestState), request, func(response *http.Response) (err error) {
		answer, status, err = s.readReply(response, host)
		return err
	})
	if err != nil {
		return nil, err
	}
	if status != nil {
		return nil, status
	}
	return answer, nil
}
