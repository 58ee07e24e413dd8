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

// Access says who is served over HTTP.
type Access struct {
	Anyone  steps.Caller // who all clients are, if Callers is nil
	Callers Callers      // knows callers by their bearer tokens; nil: nobody has one

	URL   string   // at which clients reach /mcp, such as https://tools.example.com/mcp; "": by a loopback host only
	Hosts []string // that are served beside loopback and URL's, with a port if it is not the scheme's own

	// Issuers are the authorization servers that give tokens, and Scopes what they may be asked for: clients are told of them
	// (RFC 9728) if there are Issuers and a URL.
	Issuers, Scopes []string

	// Ready fails if something is missing that calls need; nil: nothing is. Clients are told that it is, and not why.
	Ready func(ctx context.Context) error

	own   *url.URL // URL, once it is served; nil: there is none
	keyed Keyed    // Callers, once it is served; nil: they have no keys
}

// Callers knows callers by their tokens.
type Callers interface {
	// Verify gives the caller of a token: denied if there is none (steps.ErrScope inside: it is known and may do nothing),
	// unavailable if that is not known now.
	Verify(ctx context.Context, token string) (*steps.Caller, error)
}

// Keyed is implemented by Callers that verify tokens with keys which are taken back while calls run. The keys are watched
// while there are calls and streams that end with them.
type Keyed interface {
	Callers
	// Keys is a number that changes with the keys. It is asked for at each request.
	Keys() uint64
	// Hold is as Verify, for a token that was accepted before, and may have expired since.
	Hold(ctx context.Context, token string) (*steps.Caller, error)
	// Look reads the keys again if that is due; now: whenever they were read last. It is called once a second.
	Look(now bool)
}

// keys is a number that changes with the keys by which tokens are verified.
func (a *Access) keys() uint64 {
	if a.keyed == nil {
		return 0
	}
	return a.keyed.Keys()
}

// SetAccess replaces who is served from now on. Streams and calls of callers whose rights have changed end at once, or, if that
// has to be asked for elsewhere, as soon as it is known; their sessions end at their next request, and what they have sent is
// not begun. The Callers before are not asked again once the requests have been identified that are on their way.
func (s *Server) SetAccess(a *Access) {
	served := *a
	served.own, served.Anyone.Rights = nil, a.Anyone.Rights.Settled()
	if own, err := url.Parse(a.URL); err == nil && a.URL != "" {
		served.own = own
	}
	served.keyed, _ = a.Callers.(Keyed)
	s.access.Store(&served)
	s.keysWatched.Do(func() { s.watching.Go(s.watchKeys) })
	s.endRevoked()
}

// LookAgain reads the keys of tokens again now, and ends the streams and calls of callers whose rights have changed, as SetAccess
// does. New keys that have to be fetched count when they are there.
func (s *Server) LookAgain() {
	a := s.access.Load()
	if a == nil {
		return
	}
	if a.keyed != nil {
		a.keyed.Look(true)
	}
	s.endRevoked()
}

// lookTime is how long the rights of open streams may be asked for after a change.
const lookTime = 10 * time.Second

// refuses says why a request is not answered: it was sent to another host, or by a page of another site (DNS rebinding,
// cross-site requests), or has its token where logs hold it.
func (a *Access) refuses(r *http.Request, query url.Values) *fault.Error {
	if !a.serves(r.Host) {
		return fault.New(fault.Denied, "the host %.100q is not served here: use localhost or 127.0.0.1, or have it named by access.url or access.hosts", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Host == "" || !a.serves(from.Host) {
			return fault.New(fault.Denied, "requests of pages from %.100q are not answered", origin)
		}
	}
	for _, name := range []string{"access_token", "token", "api_key", "apikey", "key", "authorization"} {
		if query.Has(name) {
			return fault.New(fault.BadRequest, "a token does not belong in a URL, which logs keep: send it as the header Authorization: Bearer …, and make a new one")
		}
	}
	return nil
}

// serves reports whether a host, with or without a port, is served.
func (a *Access) serves(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	if loopback.Is(name) {
		return true
	}
	if a.own != nil && sameHost(a.own.Host, host) {
		return true
	}
	return slices.ContainsFunc(a.Hosts, func(own string) bool { return sameHost(own, host) })
}

// sameHost compares hosts as clients write them: in any case, with or without the ports of http and https. A proxy may have
// left out another port, too: it is the name that tells hosts apart.
func sameHost(own, host string) bool {
	plain := func(h string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(h), ":443"), ":80")
	}
	if plain(own) == plain(host) {
		return true
	}
	name, _, err := net.SplitHostPort(own)
	return err == nil && strings.EqualFold(name, strings.Trim(host, "[]"))
}

// ready answers a load balancer whether to send requests here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if ready := s.access.Load().Ready; s.calls.ending() || ready != nil && ready(r.Context()) != nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
