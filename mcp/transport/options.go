package transport

import (
	"cmp"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Defaults of Options.
const (
	DefaultGrace          = 10 * time.Second
	defaultMaxSessions    = 1000
	DefaultSessionTimeout = 30 * time.Minute
	defaultCallerCalls    = 64   // one caller's calls at a time, if callers have tokens
	defaultCalls          = 1024 // the calls of all callers together at a time, without tokens
)

// Options bound what the server accepts.
type Options struct {
	Log *slog.Logger // nil: no logging

	// Grace is how long running chains may take to end at shutdown; 0: 10 s.
	Grace time.Duration
	// MaxRequestBytes bounds the arguments of one tool call. A whole message may be 64 KiB longer.
	// 0: chain.DefaultMaxRequestBytes, which mcp.New fills in; ApplyDefaults does not.
	MaxRequestBytes int64
	// Replica prefixes the id of every HTTP session, so that a load balancer can route a client to the replica that has its
	// session. Letters, digits and hyphens only; "": ids are random.
	Replica string
	// MaxSessions bounds the open HTTP sessions; 0: 1,000. If callers have tokens, one caller may have a quarter of them.
	MaxSessions int
	// CallerCalls bounds the tool calls that one caller runs at a time, or that all run together if callers have no tokens; 0:
	// 64, or 1,024; -1: unlimited.
	CallerCalls int
	// SessionTimeout ends an HTTP session that was idle for this long; 0: 30 minutes; negative: never.
	SessionTimeout time.Duration
	// Stateless serves all HTTP clients without sessions, including those of older protocol versions.
	Stateless bool
	// Refused is called with the reason why a request was refused before it was handled: host, request, token, scope, keys,
	// session, busy or size. nil: not called.
	Refused func(reason string)
	// Console serves what is below ConsolePath. It identifies its callers itself; hosts and origins have been checked. nil: nothing is there.
	Console http.Handler
	// KeepAlive is the interval at which clients with a session are pinged; three missing answers end the session. 0: never.
	KeepAlive time.Duration
}

// Limits bound what one caller may have at a time.
type Limits struct {
	Calls    int // running tool calls; -1: unlimited
	Sessions int // open HTTP sessions
	Requests int // HTTP requests in progress; -1: unlimited
	Detached int // runs that continue after their requests (Request.Detach): a quarter of Calls, at least 1; -1: unlimited
}

// Limits returns the limits of one caller. Without tokens callers cannot be distinguished, so the limits apply to all of
// them together.
func (o *Options) Limits(tokens bool) Limits {
	l := Limits{Calls: cmp.Or(o.CallerCalls, defaultCalls), Sessions: o.MaxSessions, Requests: -1}
	if tokens {
		l.Calls, l.Sessions = cmp.Or(o.CallerCalls, defaultCallerCalls), max(1, o.MaxSessions/4)
	}
	if l.Calls >= 0 { // a stream for each session, and some for lists and queries
		l.Requests = l.Calls + l.Sessions + 100
	}
	if l.Detached = l.Calls; l.Detached > 0 {
		l.Detached = max(1, l.Detached/4)
	}
	return l
}

// Reasons for refusing a request before it is handled.
const (
	reasonHost    = "host"    // host that is not served, or a page of another site
	reasonRequest = "request" // unknown query, or a token in the URL
	reasonToken   = "token"   // no valid token
	reasonScope   = "scope"   // token without rights
	reasonKeys    = "keys"    // tokens cannot be checked now
	reasonSession = "session" // another caller's session, or too many sessions
	reasonBusy    = "busy"    // too many requests or calls at once
	reasonSize    = "size"    // message too long
)

// notInReplica matches the characters that a replica name cannot have.
var notInReplica = regexp.MustCompile(`[^A-Za-z0-9-]`)

// ReplicaName makes a valid replica name of name: at most 63 letters, digits and hyphens. A valid name is unchanged.
func ReplicaName(name string) string {
	name = notInReplica.ReplaceAllString(name, "-")
	return name[:min(len(name), 63)]
}

// ApplyDefaults checks the options and fills in defaults, except for MaxRequestBytes and CallerCalls. It fails with bad_request.
func (o *Options) ApplyDefaults() error {
	switch {
	case ReplicaName(o.Replica) != o.Replica:
		return fault.New(fault.BadRequest, "Options.Replica is %.60q: it must be at most 63 letters, digits and -", o.Replica)
	case o.MaxSessions < 0 || o.CallerCalls < -1:
		return fault.New(fault.BadRequest, "Options.MaxSessions is %d and CallerCalls %d: use a number above zero, 0 for the default, "+
			"or -1 for unlimited CallerCalls", o.MaxSessions, o.CallerCalls)
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
