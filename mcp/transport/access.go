package transport

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/steps"
)

// Access configures which clients the HTTP listener serves.
type Access struct {
	Anyone  steps.Caller // the caller of every request if Callers is nil
	Callers Callers      // identifies callers by their bearer tokens; nil: no tokens

	URL   string   // where clients reach Path, such as https://tools.example.com/mcp; "": on loopback hosts only
	Hosts []string // hosts to serve in addition to loopback and the host of URL; with a port if it is not the scheme's default

	// Credentials returns what a request of a caller brings for sources that are called as their callers (steps.Rights.Credentials); nil:
	// there are no such sources.
	Credentials func(caller *steps.Caller, header http.Header) string

	// Issuers are the authorization servers that issue tokens, and Scopes the scopes that clients may request. They are published
	// as protected resource metadata (RFC 9728) if there are Issuers and a URL.
	Issuers, Scopes []string

	// Ready returns an error if calls lack something that they need; nil: always ready. Clients see only that the server is not
	// ready, not the error.
	Ready func(ctx context.Context) error

	publicURL *url.URL         // URL, parsed by SetAccess; nil: none
	revocable RevocableCallers // Callers, if they implement RevocableCallers
}

// Callers identifies callers by their tokens.
type Callers interface {
	// Verify returns the caller of a token. Errors: denied if the token is not accepted (it wraps steps.ErrScope if the caller is
	// known but has no rights), unavailable if the token cannot be checked now.
	Verify(ctx context.Context, token string) (*steps.Caller, error)
}

// RevocableCallers are Callers whose tokens are verified with keys that can be revoked while calls run. The server polls the keys
// while requests are open.
type RevocableCallers interface {
	Callers
	// KeysVersion changes whenever the keys change. It is called for each request.
	KeysVersion() uint64
	// Reverify is like Verify, but for a token that was accepted before and may have expired since.
	Reverify(ctx context.Context, token string) (*steps.Caller, error)
	// RefreshKeys reads the keys again if that is due, or in any case if force is set. It is called once a second.
	RefreshKeys(force bool)
}

// keysVersion returns the version of the keys that verify tokens; 0: there are none.
func (a *Access) keysVersion() uint64 {
	if a.revocable == nil {
		return 0
	}
	return a.revocable.KeysVersion()
}

// SetAccess replaces the access configuration. Open streams and running calls end as soon as their caller is known to have lost
// its rights: at once, or later if another server must be asked. Sessions of such callers end at their next request, and
// requests that have not started are refused. Requests that are being identified now may still use the former Callers, later ones do not.
func (s *Server) SetAccess(a *Access) {
	served := *a
	served.publicURL, served.Anyone.Rights = nil, a.Anyone.Rights.WithDefaultTier()
	if public, err := url.Parse(a.URL); err == nil && a.URL != "" {
		served.publicURL = public
	}
	served.revocable, _ = a.Callers.(RevocableCallers)
	s.access.Store(&served)
	s.keysWatched.Do(func() { s.background.Go(s.watchKeys) })
	s.endRevoked()
}

// RecheckCallers reads the keys of tokens again and ends the streams and calls of callers whose rights have changed. Keys that
// have to be fetched take effect when they arrive.
func (s *Server) RecheckCallers() {
	a := s.access.Load()
	if a == nil {
		return
	}
	if a.revocable != nil {
		a.revocable.RefreshKeys(true)
	}
	s.endRevoked()
}

// recheckTimeout bounds how long the rights of open requests are looked up after a change.
const recheckTimeout = 10 * time.Second

// check returns why a request is refused: it is for a host that is not served, comes from a page of another site (DNS rebinding,
// cross-site requests), or has its token in the URL, where logs would keep it. nil: it may be served.
func (a *Access) check(r *http.Request, query url.Values) *fault.Error {
	if !a.servesHost(r.Host) {
		return fault.New(fault.Denied, "the host %.100q is not served here: use localhost or 127.0.0.1, "+
			"or name it in access.url or access.hosts", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Host == "" || !a.servesHost(from.Host) {
			return fault.New(fault.Denied, "pages of %.100q may not send requests here: only pages of localhost, "+
				"access.url and access.hosts may", origin)
		}
	}
	for _, name := range []string{"access_token", "token", "api_key", "apikey", "key", "authorization"} {
		if query.Has(name) {
			return fault.New(fault.BadRequest, "a token does not belong in a URL, which logs keep: "+
				"send it as the header Authorization: Bearer …, and make a new one")
		}
	}
	return nil
}

// servesHost reports whether a host, with or without a port, is served.
func (a *Access) servesHost(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	if loopback.Is(name) {
		return true
	}
	if a.publicURL != nil && sameHost(a.publicURL.Host, host) {
		return true
	}
	return slices.ContainsFunc(a.Hosts, func(allowed string) bool { return sameHost(allowed, host) })
}

// sameHost reports whether host, as a client wrote it, is the served one. Case and the default ports of http and https are
// ignored. Only the names are compared if the client gave no port: a proxy may have removed it.
func sameHost(allowed, host string) bool {
	normalize := func(h string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(h), ":443"), ":80")
	}
	if normalize(allowed) == normalize(host) {
		return true
	}
	name, _, err := net.SplitHostPort(allowed)
	return err == nil && strings.EqualFold(name, strings.Trim(host, "[]"))
}

// handleReady tells a load balancer whether to send requests here.
func (s *Server) handleReady(w http.ResponseWriter, r *http.Request) {
	if ready := s.access.Load().Ready; s.calls.isClosing() || ready != nil && ready(r.Context()) != nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
