package mcp

import (
	"context"
	"log/slog"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/dispatch"
)

// Options says what a Server serves. Engine, Catalog and Counter are required.
type Options struct {
	Engine   *chain.Engine   // runs chains, calls and fetches
	Catalog  *steps.Catalog  // the functions, and the sources that info and search tell of
	Counter  budget.Counter  // counts the tokens of answers
	Scrubber *steps.Scrubber // takes secrets out of what upstreams say; nil: there are none

	Surface        Surface
	Dispatch       *dispatch.Dispatch // the dispatchers of SurfaceDispatch and SurfaceHybrid; nil: none
	Hoist          []string           // names that a chain and a dispatcher's call take beside their fields
	Lite           bool               // the form of answers where a call does not say it
	MaxTotalTokens int                // of any answer; 0: no bound
	// SessionTokens is how many tokens the answers to one session may have together: past them only fetches, and answers of
	// twice budget.Least at most, are given. Clients without sessions have no such bound. 0: nothing is added up; below it is
	// bad_request.
	SessionTokens int
	// Processed has flat tools answer as functions do, within the budget; else their results are what the upstream gave.
	Processed bool
	Upstreams []Upstream // what a flat surface passes through, in the configuration's order

	// Context makes the context in which the engine runs a request (a chain, a fetch, or the arguments of one call); nil: it is
	// the request's own.
	Context func(ctx context.Context, request []byte) context.Context

	Name, Version string       // of this server; "": "onecall", "dev"
	Log           *slog.Logger // nil: nothing is logged

	// Grace is how long running chains may go on when the server is shut down; 0: 10 s.
	Grace time.Duration
	// MaxRequestBytes bounds one message of a client; 0: chain.DefaultMaxRequestBytes.
	MaxRequestBytes int64
	// MaxSessions bounds the sessions over HTTP at a time; 0: 1,000.
	MaxSessions int
	// SessionTimeout ends a session over HTTP that was not used for so long; 0: 30 minutes.
	SessionTimeout time.Duration
	// Stateless serves all clients over HTTP without sessions, those of older versions too.
	Stateless bool
	// KeepAlive is how often clients with a session are pinged; one that does not answer three in a row is gone. 0: never.
	KeepAlive time.Duration
}

// Access says who a door's clients are, and what they may use.
type Access struct {
	ID   string     // kept results are bound to it
	Tier steps.Tier // TierDefault: TierRead
}
