package mcp

import (
	"cmp"
	"context"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// Options configure a Server. Engine, Catalog and Counter are required.
type Options struct {
	Engine   *chain.Engine  // runs chains, calls and fetches
	Catalog  *steps.Catalog // functions and sources
	Counter  budget.Counter // counts the tokens of answers
	Scrubber steps.Scrubber // removes secrets from what upstreams say; nil: none are known

	Surface        Surface
	Dispatch       *groups.Dispatch // dispatchers of SurfaceDispatch and SurfaceHybrid; nil: none
	Hoist          []string         // arguments that chains and dispatchers' calls take in addition to their own fields
	ReadTool       bool             // adds chain_read: a chain whose steps only read
	Lite           bool             // answers are short unless a call says otherwise
	MaxTotalTokens int              // the token limit of any answer; 0: unlimited
	MaxBlockBytes  int64            // bytes of blocks after the text of an answer; 0: none
	// SessionTokens bounds the tokens of all answers to one session: beyond it answers have twice budget.MinTokensFor tokens at most,
	// except for fetches. Clients without sessions have no such limit. 0: unlimited; below 0: bad_request.
	SessionTokens int
	// Processed makes flat tools answer like functions, within the budget; otherwise their results are the upstream's own.
	Processed bool
	// Passthrough provides what flat surfaces pass through; nil: nothing. Clients that connected under nil get nothing after a reload either.
	Passthrough Passthrough

	// Workers carry out chains that are answered before they end; nil: this process does.
	Workers chain.Workers

	// Context returns the context for a request to the engine (a chain, a fetch, or the arguments of one call); nil: the
	// request's own.
	Context func(ctx context.Context, request []byte) context.Context

	// Labels returns what the client of a context was shown of what flow rules are about, and remembers what its request sends (nil: nothing
	// of its own). The context has the client's session, if it has one. nil: there are no flow rules.
	Labels func(ctx context.Context, caller string, request []byte) chain.SessionLabels

	Name, Version string // the name and version of this server; "": "onecall", "dev"

	transport.Options // the bounds on what the server accepts

	// Hidden describes, for administrators, how many functions other callers do not see and how to change that; "": none are
	// hidden. nil: as if it returned "".
	Hidden func() string

	// Unready describes, for administrators, why the server is not ready; "": it is ready. nil: as if it returned "".
	Unready func(context.Context) string

	// Trace returns the context of a tool call; traceparent and tracestate come from its client (W3C Trace Context), "" without a
	// trace. nil: the request's own context.
	Trace func(ctx context.Context, tool, traceparent, tracestate string) context.Context
}

// applyDefaults checks the options (bad_request) and fills in defaults.
func (o *Options) applyDefaults() error {
	switch {
	case o.Engine == nil || o.Catalog == nil || o.Counter == nil:
		return fault.New(fault.BadRequest, "Options.Engine, Catalog and Counter are required")
	case o.SessionTokens < 0:
		return fault.New(fault.BadRequest, "Options.SessionTokens is %d: it cannot be below zero", o.SessionTokens)
	}
	if o.Scrubber == nil {
		o.Scrubber = secret.New(nil)
	}
	o.Name = cmp.Or(o.Name, "onecall")
	o.Version = cmp.Or(o.Version, "dev")
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, chain.DefaultMaxRequestBytes)
	if o.Dispatch == nil {
		o.Dispatch, _ = groups.New(nil) // an empty configuration is valid
	}
	return o.Options.ApplyDefaults()
}
