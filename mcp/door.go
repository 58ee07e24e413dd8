package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/rights"
	"github.com/onecall-mcp/onecall/steps"
)

// Door says who comes in over HTTP.
type Door struct {
	Access  rights.Caller // of all who come, where Callers is nil
	Callers Callers       // knows callers by their bearer tokens; nil: nobody has one

	URL   string   // at which clients reach /mcp, such as https://tools.example.com/mcp; "": by a loopback host only
	Hosts []string // that are served beside loopback and URL's, with a port where that is not the scheme's own

	// Issuers are the authorization servers that give tokens, and Scopes what they may be asked for: clients are told of them
	// (RFC 9728) where there are Issuers and a URL.
	Issuers, Scopes []string

	// Ready tells whether all is there that calls need; nil: it is. Clients are told that it is not, and not why.
	Ready func(ctx context.Context) error
}

// Callers knows callers by their tokens.
type Callers interface {
	// Verify gives the caller of a token: denied where there is none (rights.ErrScope inside: it is known and may do nothing),
	// unavailable where that cannot be told now.
	Verify(ctx context.Context, token string) (*rights.Caller, error)
}

// SetDoor lets others in from now on. Streams of callers whose rights are others end at once, their sessions at their next
// request. What Callers was before is not asked any more once the requests that were being looked at have been.
func (s *Server) SetDoor(d *Door) {
	s.door.Store(d)
	s.cutStreams(func(open *stream) bool {
		if d.Callers == nil {
			return open.caller.Rights != d.Access.Rights || open.caller.ID != d.Access.ID
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		now, err := d.Callers.Verify(ctx, open.token)
		return err != nil || now.Rights != open.caller.Rights || now.ID != open.caller.ID
	})
}

// lookTime is how long the rights of one stream may be looked for after a change.
const lookTime = 10 * time.Second

// admit says why a request is not answered: it was sent to another host, or by a page of another site (DNS rebinding,
// cross-site requests), has its token where logs hold it, or asks for a surface that there is not.
func (d *Door) admit(r *http.Request) *fault.Error {
	if !d.serves(r.Host) {
		return fault.New(fault.Denied, "the host %.100q is not served here: use localhost or 127.0.0.1", r.Host)
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

// serves tells whether a host, with or without a port, is one of the door's.
func (d *Door) serves(host string) bool {
	if isLoopback(host) {
		return true
	}
	if d.URL != "" {
		if own, err := url.Parse(d.URL); err == nil && sameHost(own.Host, host) {
			return true
		}
	}
	return slices.ContainsFunc(d.Hosts, func(own string) bool { return sameHost(own, host) })
}

// sameHost compares hosts as clients write them: in any case, the ports of http and https left out or not.
func sameHost(own, host string) bool {
	plain := func(h string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(h), ":443"), ":80")
	}
	return plain(own) == plain(host)
}

type callerKey struct{}

// callerIn is who has sent the request whose context ctx is.
func (s *Server) callerIn(ctx context.Context) *rights.Caller {
	caller, _ := ctx.Value(callerKey{}).(*rights.Caller)
	return caller
}

// callerField is where the protocol's library keeps the caller of a request.
const callerField = "caller"

// authorized finds out who has sent a request, and hands on what a known caller has sent.
func (s *Server) authorized(d *Door, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if d.Callers == nil {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &d.Access)))
		return
	}
	token := bearer(r)
	caller, err := (*rights.Caller)(nil), error(nil)
	if token != "" {
		caller, err = d.Callers.Verify(r.Context(), token)
	}
	switch {
	case err != nil && fault.CodeOf(err) != fault.Denied:
		s.o().Log.Error("tokens cannot be checked", "error", err)
		s.o().Refused(RefusedKeys)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "tokens cannot be checked now", http.StatusServiceUnavailable)
		return
	case errors.Is(err, rights.ErrScope):
		s.o().Refused(RefusedScope)
		d.challenge(w, "insufficient_scope")
		http.Error(w, "the token's scopes give no rights here", http.StatusForbidden)
		return
	case err != nil || caller == nil:
		if f, ok := fault.As(err); ok && f.Err != nil {
			s.o().Log.Debug("a token was refused", "error", f.Err) // which holds nothing of the token
		}
		s.o().Refused(RefusedToken)
		problem := "invalid_token"
		if token == "" {
			problem = "" // RFC 6750 section 3.1: who sent no token is told no error
		}
		d.challenge(w, problem)
	}
	known := auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		if err != nil || caller == nil {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: caller.ID, Expiration: caller.Expires, Extra: map[string]any{callerField: caller}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	known(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})).ServeHTTP(w, r)
}

// bearer is the token that a request carries; "" where it carries none, or more than one.
func bearer(r *http.Request) string {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(headers[0]), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || strings.ContainsAny(token, " \t") {
		return ""
	}
	return token
}

// challenge tells how a caller gets in (RFC 6750 section 3, RFC 9728 section 5.1); problem "": it has not tried yet.
func (d *Door) challenge(w http.ResponseWriter, problem string) {
	params := []string{`realm="onecall"`}
	if problem != "" {
		params = append(params, fmt.Sprintf("error=%q", problem))
	}
	if at := d.metadataURL(); at != "" {
		params = append(params, fmt.Sprintf("resource_metadata=%q", at))
		if len(d.Scopes) > 0 {
			params = append(params, fmt.Sprintf("scope=%q", strings.Join(d.Scopes, " ")))
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer "+strings.Join(params, ", "))
}

// metadataPath is where clients look for the metadata of a protected resource; that of a resource with a path stands under
// it with the path (RFC 9728 section 3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataURL is where a client is told how to get a token; "": nowhere.
func (d *Door) metadataURL() string {
	own, err := url.Parse(d.URL)
	if err != nil || d.URL == "" || len(d.Issuers) == 0 {
		return ""
	}
	own.Path, own.RawPath, own.RawQuery = metadataPath+strings.TrimSuffix(own.Path, "/"), "", ""
	return own.String()
}

// metadata tells where a client gets a token.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	d := s.door.Load()
	if d.metadataURL() == "" || !d.serves(r.Host) {
		http.NotFound(w, r)
		return
	}
	auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: d.URL, AuthorizationServers: d.Issuers, ScopesSupported: d.Scopes, BearerMethodsSupported: []string{"header"},
	}).ServeHTTP(w, r)
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
func settled(r rights.Rights) rights.Rights {
	r.Tier = max(r.Tier, steps.TierRead)
	return r
}
