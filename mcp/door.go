package mcp

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

// Door says who comes in over HTTP.
type Door struct {
	Access  steps.Caller // of all who come, where Callers is nil
	Callers Callers      // knows callers by their bearer tokens; nil: nobody has one

	URL   string   // at which clients reach /mcp, such as https://tools.example.com/mcp; "": by a loopback host only
	Hosts []string // that are served beside loopback and URL's, with a port where that is not the scheme's own

	// Issuers are the authorization servers that give tokens, and Scopes what they may be asked for: clients are told of them
	// (RFC 9728) where there are Issuers and a URL.
	Issuers, Scopes []string

	// Ready tells whether all is there that calls need; nil: it is. Clients are told that it is not, and not why.
	Ready func(ctx context.Context) error

	own   *url.URL // URL, once it is served; nil: there is none
	keyed Keyed    // Callers, once it is served; nil: they have no keys
}

// Callers knows callers by their tokens.
type Callers interface {
	// Verify gives the caller of a token: denied where there is none (rights.ErrScope inside: it is known and may do nothing),
	// unavailable where that cannot be told now.
	Verify(ctx context.Context, token string) (*steps.Caller, error)
}

// Keyed is what Callers are, too, who verify tokens with keys that are taken back while calls run, such as a rights.Table. It is
// looked whether the keys are others while there are calls and streams that end with them.
type Keyed interface {
	Callers
	// Keys is a number that is another one once the keys are others. It is asked for at each request.
	Keys() uint64
	// Hold is as Verify, for a token that was accepted before, and may have expired since.
	Hold(ctx context.Context, token string) (*steps.Caller, error)
	// Look has the keys looked at where that is due; now: whenever they were looked at last. It is called once a second.
	Look(now bool)
}

// keys is a number that is another one once the keys by which tokens are verified are others.
func (d *Door) keys() uint64 {
	if d.keyed == nil {
		return 0
	}
	return d.keyed.Keys()
}

// SetDoor lets others in from now on. Streams and calls of callers whose rights are others end at once, or, where that has to be
// asked for elsewhere, as soon as it is known; their sessions end at their next request, and what they have sent is not begun any
// more. What Callers was before is not asked any more once the requests that were being looked at have been.
func (s *Server) SetDoor(d *Door) {
	served := *d // what is made of it is the server's own
	served.own = nil
	if own, err := url.Parse(d.URL); err == nil && d.URL != "" {
		served.own = own
	}
	served.keyed, _ = d.Callers.(Keyed)
	s.door.Store(&served)
	s.keysWatched.Do(func() { s.watching.Go(s.watchKeys) })
	s.cutRevoked()
}

// LookAgain looks now whether the keys of tokens are others, and ends the streams and calls of callers who have not their rights any
// more, as SetDoor does. New keys that have to be fetched are looked at when they are there.
func (s *Server) LookAgain() {
	d := s.door.Load()
	if d == nil {
		return
	}
	if d.keyed != nil {
		d.keyed.Look(true)
	}
	s.cutRevoked()
}

// lookTime is how long the rights of open streams may be looked for after a change.
const lookTime = 10 * time.Second

// admit says why a request is not answered: it was sent to another host, or by a page of another site (DNS rebinding,
// cross-site requests), has its token where logs hold it, or asks for a surface that there is not.
func (d *Door) admit(r *http.Request) *fault.Error {
	if !d.serves(r.Host) {
		return fault.New(fault.Denied, "the host %.100q is not served here: use localhost or 127.0.0.1, or have it named by access.url or access.hosts", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Host == "" || !d.serves(from.Host) {
			return fault.New(fault.Denied, "requests of pages from %.100q are not answered", origin)
		}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query := r.URL.Query()
	for _, name := range []string{"access_token", "token", "api_key", "apikey", "key", "authorization"} {
		if query.Has(name) {
			return fault.New(fault.BadRequest, "a token does not belong in a URL, which logs keep: send it as the header Authorization: Bearer …, and make a new one")
		}
	}
	if word := query.Get("surface"); word != "" {
		if _, err := ParseSurface(word); err != nil {
			f, _ := fault.As(err)
			return f
		}
	}
	return nil
}

// withoutPort is the host of a Host header or an address.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// serves tells whether a host, with or without a port, is one of the door's.
func (d *Door) serves(host string) bool {
	if loopback.Is(withoutPort(host)) {
		return true
	}
	if d.own != nil && sameHost(d.own.Host, host) {
		return true
	}
	return slices.ContainsFunc(d.Hosts, func(own string) bool { return sameHost(own, host) })
}

// sameHost compares hosts as clients write them: in any case, the ports of http and https left out or not. A proxy may have
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

// ready tells a load balancer whether to send requests here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if ready := s.door.Load().Ready; s.calls.ending() || ready != nil && ready(r.Context()) != nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// settled are rights as faces know them.
func settled(r steps.Rights) steps.Rights {
	r.Tier = max(r.Tier, steps.TierRead)
	return r
}
