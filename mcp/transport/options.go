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
	defaultMaxSessions    = 1000
	DefaultSessionTimeout = 30 * time.Minute
	defaultCallerCalls    = 64   // at once, if callers have tokens
	defaultCalls          = 1024 // at once, of all together, if nobody knows one from another
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
	// MaxSessions bounds the sessions over HTTP at a time; 0: 1,000. If callers have tokens, one of them has a quarter at most.
	MaxSessions int
	// CallerCalls bounds the calls of tools that one caller runs at a time, or all together if callers have no tokens; 0:
	// 64, or 1,024; -1: no bound.
	CallerCalls int
	// SessionTimeout ends a session over HTTP that was not used for so long; 0: 30 minutes.
	SessionTimeout time.Duration
	// Stateless serves all clients over HTTP without sessions, those of older versions too.
	Stateless bool
	// Refused is told why a request was refused before it was looked at: host, request, token, scope, keys, session, busy or
	// size; nil: nobody is.
	Refused func(reason string)
	// KeepAlive is how often clients with a session are pinged; one that does not answer three in a row is gone. 0: never.
	KeepAlive time.Duration
}

// Limits are what one caller may have at a time.
type Limits struct {
	Calls    int // of tools that run; -1: any number
	Sessions int // over HTTP
	Requests int // over HTTP, under way; -1: any number
}

// Limits are those of one caller. Without tokens nobody knows one caller from another: they hold for all together.
func (o *Options) Limits(tokens bool) Limits {
	l := Limits{Calls: cmp.Or(o.CallerCalls, defaultCalls), Sessions: o.MaxSessions, Requests: -1}
	if tokens {
		l.Calls, l.Sessions = cmp.Or(o.CallerCalls, defaultCallerCalls), max(1, o.MaxSessions/4)
	}
	if l.Calls >= 0 { // a stream for each session, and some to ask what there is
		l.Requests = l.Calls + l.Sessions + 100
	}
	return l
}

// Why requests are refused before they are looked at.
const (
	reasonHost    = "host"    // sent to a host that is not served, or by a page of another site
	reasonRequest = "request" // asks for what there is not, or has a token in its URL
	reasonToken   = "token"   // without a token that is known
	reasonScope   = "scope"   // with a token that gives no rights
	reasonKeys    = "keys"    // tokens cannot be checked now
	reasonSession = "session" // for a session that is not the caller's, or too many
	reasonBusy    = "busy"    // too many requests or calls at once
	reasonSize    = "size"    // a message that is too long
)

// notInReplica are the characters that the name of a replica cannot have.
var notInReplica = regexp.MustCompile(`[^A-Za-z0-9-]`)

// ReplicaName is a name as one of a replica, which has at most 63 letters, digits and -: the same if it is one.
func ReplicaName(name string) string {
	name = notInReplica.ReplaceAllString(name, "-")
	return name[:min(len(name), 63)]
}

// Settle checks the options (bad_request), and fills gaps with defaults.
func (o *Options) Settle() error {
	switch {
	case ReplicaName(o.Replica) != o.Replica:
		return fault.New(fault.BadRequest, "Options.Replica is %.60q: it must be at most 63 letters, digits and -", o.Replica)
	case o.MaxSessions < 0 || o.CallerCalls < -1:
		return fault.New(fault.BadRequest, "Options.MaxSessions is %d and CallerCalls %d: a limit is a number above zero; -1 bounds no calls",
			o.MaxSessions, o.CallerCalls)
	}
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.MaxSessions = cmp.Or(o.MaxSessions, defaultMaxSessions)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, DefaultSessionTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	return nil
}
