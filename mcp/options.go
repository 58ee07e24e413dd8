package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"regexp"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
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
	Lite           bool             // the form of answers where a call does not say it
	MaxTotalTokens int              // of any answer; 0: no bound
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
	// Replica begins the id of every session over HTTP, so that a balancer in front of several servers can send a client to the one
	// that has its session: letters, digits and - only; "": ids are random.
	Replica string
	// MaxSessions bounds the sessions over HTTP at a time; 0: 1,000.
	MaxSessions int
	// SessionTimeout ends a session over HTTP that was not used for so long; 0: 30 minutes.
	SessionTimeout time.Duration
	// Stateless serves all clients over HTTP without sessions, those of older versions too.
	Stateless bool
	// Limits are those of each caller.
	Limits Limits
	// Hidden says, to administrators, how many functions callers by default do not see, and what changes that; "": they see all.
	// nil: the same.
	Hidden func() string

	// Trace makes the context of a call of a tool; traceparent and tracestate are those of its client (W3C Trace Context), "" where
	// it is part of no trace. nil: it is the request's own.
	Trace func(ctx context.Context, tool, traceparent, tracestate string) context.Context
	// Refused is told why a request was refused before it was looked at (RefusedHost…); nil: nobody is.
	Refused func(reason string)

	// KeepAlive is how often clients with a session are pinged; one that does not answer three in a row is gone. 0: never.
	KeepAlive time.Duration
}

// Limits bound what one caller may do at a time. A zero field stands for its default, and -1 for no bound.
type Limits struct {
	Sessions  int     // over HTTP at once, where callers have tokens; 0: DefaultCallerSessions
	Calls     int     // that run at once; 0: DefaultCallerCalls, and DefaultCalls where callers have no tokens
	PerSecond float64 // requests on average, pings and notifications not counted; 0: no bound
	Burst     int     // requests at once where PerSecond is set; 0: PerSecond, at least 1
}

// Why requests are refused before they are looked at.
const (
	RefusedHost    = "host"    // sent to a host that is not served, or by a page of another site
	RefusedRequest = "request" // asks for what there is not, or has a token in its URL
	RefusedToken   = "token"   // without a token that is known
	RefusedScope   = "scope"   // with a token that gives no rights
	RefusedKeys    = "keys"    // tokens cannot be checked now
	RefusedSession = "session" // for a session that is not the caller's, or too many
	RefusedRate    = "rate"    // too many requests, or calls at once
	RefusedSize    = "size"    // a message that is too long
)

// settle fills gaps with defaults.
func (o *Options) settle() {
	if o.Scrubber == nil {
		o.Scrubber = secret.New(nil)
	}
	o.Name = cmp.Or(o.Name, "onecall")
	o.Version = cmp.Or(o.Version, "dev")
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.MaxSessions = cmp.Or(o.MaxSessions, DefaultMaxSessions)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, DefaultSessionTimeout)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, chain.DefaultMaxRequestBytes)
	o.Limits.Sessions = cmp.Or(o.Limits.Sessions, DefaultCallerSessions)
	if o.Limits.PerSecond > 0 && o.Limits.Burst == 0 {
		o.Limits.Burst = max(1, int(o.Limits.PerSecond))
	}
	if o.Dispatch == nil {
		o.Dispatch, _ = groups.New(nil) // nothing cannot be wrong
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
}

var replicaName = regexp.MustCompile(`^[A-Za-z0-9-]{0,63}$`)

// check finds what no server can be made of: bad_request.
func (o *Options) check() error {
	switch {
	case o == nil || o.Engine == nil || o.Catalog == nil || o.Counter == nil:
		return fault.New(fault.BadRequest, "Options.Engine, Catalog and Counter are required")
	case !replicaName.MatchString(o.Replica):
		return fault.New(fault.BadRequest, "Options.Replica is %.60q: it must be at most 63 letters, digits and -", o.Replica)
	case o.SessionTokens < 0:
		return fault.New(fault.BadRequest, "Options.SessionTokens is %d: it cannot be below zero", o.SessionTokens)
	case o.Limits.Sessions < -1 || o.Limits.Calls < -1 || o.Limits.PerSecond < 0 || o.Limits.Burst < 0:
		return fault.New(fault.BadRequest, "Options.Limits: a limit is a number above zero, or -1 for none")
	}
	return nil
}
