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

// Options says what a Server serves. Engine, Catalog and Counter are required.
type Options struct {
	Engine   *chain.Engine  // runs chains, calls and fetches
	Catalog  *steps.Catalog // the functions, and the sources that info and search tell of
	Counter  budget.Counter // counts the tokens of answers
	Scrubber steps.Scrubber // takes secrets out of what upstreams say; nil: there are none

	Surface        Surface
	Dispatch       *groups.Dispatch // the dispatchers of SurfaceDispatch and SurfaceHybrid; nil: none
	Hoist          []string         // names that a chain and a dispatcher's call take beside their fields
	ReadTool       bool             // adds chain_read: a chain whose steps only read
	Lite           bool             // the form of answers if a call does not say it
	MaxTotalTokens int              // of any answer; 0: no bound
	// SessionTokens is how many tokens the answers to one session may have together: past them only fetches, and answers of
	// twice budget.Least at most, are given. Clients without sessions have no such bound. 0: nothing is added up; below it is
	// bad_request.
	SessionTokens int
	// Processed has flat tools answer as functions do, within the budget; else their results are what the upstream gave.
	Processed bool
	// Passthrough is what flat surfaces pass through; nil: nothing, and a reload does not change that.
	Passthrough Passthrough

	// Context makes the context in which the engine runs a request (a chain, a fetch, or the arguments of one call); nil: it is
	// the request's own.
	Context func(ctx context.Context, request []byte) context.Context

	Name, Version string // of this server; "": "onecall", "dev"

	transport.Options // what comes in, and how much of it

	// Hidden says, to administrators, how many functions callers by default do not see, and what changes that; "": they see all.
	// nil: the same.
	Hidden func() string

	// Unready says, to administrators, why the server is not ready; "": it is. nil: the same.
	Unready func(context.Context) string

	// Trace makes the context of a call of a tool; traceparent and tracestate are those of its client (W3C Trace Context), "" where
	// it is part of no trace. nil: it is the request's own.
	Trace func(ctx context.Context, tool, traceparent, tracestate string) context.Context
}

// settle checks the options (bad_request), and fills gaps with defaults.
func (o *Options) settle() error {
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
		o.Dispatch, _ = groups.New(nil) // nothing cannot be wrong
	}
	return o.Options.Settle()
}
