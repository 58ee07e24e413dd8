package transport

import (
	"cmp"
	"log/slog"
	"regexp"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Defaults of Options.
const (
	DefaultGrace          = 10 * time.Second
	DefaultMaxSessions    = 1000
	DefaultSessionTimeout = 30 * time.Minute
	DefaultCallerSessions = 250
	DefaultCallerCalls    = 64   // if callers have tokens
	DefaultCalls          = 1024 // of all together, if nobody knows one from another
)

// Options bound what comes in.
type Options struct {
	Log *slog.Logger // nil: nothing is logged

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
	// Refused is told why a request was refused before it was looked at (RefusedHost…); nil: nobody is.
	Refused func(reason string)
	// KeepAlive is how often clients with a session are pinged; one that does not answer three in a row is gone. 0: never.
	KeepAlive time.Duration
}

// Limits bound what one caller may do at a time. A zero field stands for its default, and -1 for no bound.
type Limits struct {
	Sessions  int     // over HTTP at once, if callers have tokens; 0: DefaultCallerSessions
	Calls     int     // that run at once; 0: DefaultCallerCalls, and DefaultCalls if callers have no tokens
	PerSecond float64 // requests on average, pings and notifications not counted; 0: no bound
	Burst     int     // requests at once if PerSecond is set; 0: PerSecond, at least 1
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

var replicaName = regexp.MustCompile(`^[A-Za-z0-9-]{0,63}$`)

// Settle checks the options (bad_request), and fills gaps with defaults.
func (o *Options) Settle() error {
	switch {
	case !replicaName.MatchString(o.Replica):
		return fault.New(fault.BadRequest, "Options.Replica is %.60q: it must be at most 63 letters, digits and -", o.Replica)
	case o.Limits.Sessions < -1 || o.Limits.Calls < -1 || o.Limits.PerSecond < 0 || o.Limits.Burst < 0:
		return fault.New(fault.BadRequest, "Options.Limits: a limit is a number above zero, or -1 for none")
	}
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.MaxSessions = cmp.Or(o.MaxSessions, DefaultMaxSessions)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, DefaultSessionTimeout)
	o.Limits.Sessions = cmp.Or(o.Limits.Sessions, DefaultCallerSessions)
	if o.Limits.PerSecond > 0 && o.Limits.Burst == 0 {
		o.Limits.Burst = max(1, int(o.Limits.PerSecond))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	return nil
}
