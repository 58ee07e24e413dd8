package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// visitor is who has sent a request over HTTP, and by which door's word.
type visitor struct {
	*steps.Caller
	sender
	door     *Door
	keys     atomic.Uint64 // of the door, by which its token was verified
	at       time.Time     // when it was identified
	token    string        // "": the door asks for none
	attended atomic.Bool   // its request has come to a face, which counts it
	decoded  func()        // releases the slot that its message is decoded with; nil: there is none
}

type visitorKey struct{}

// callerIn is who has sent the request whose context ctx is.
func (s *Server) callerIn(ctx context.Context) *steps.Caller {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v.Caller
}

// visitorField is where the protocol's library keeps the visitor of a request.
const visitorField = "visitor"

// visitorOf is who has sent a message; nil: it did not come by a door that asks for tokens.
func visitorOf(extra *sdk.RequestExtra) *visitor {
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	v, _ := extra.TokenInfo.Extra[visitorField].(*visitor)
	return v
}

// visitorFor is who has sent a message, by whichever door; nil: it did not come over HTTP. Where the door asks for no tokens
// it is who has begun the session.
func visitorFor(ctx context.Context, extra *sdk.RequestExtra) *visitor {
	if v := visitorOf(extra); v != nil {
		return v
	}
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v
}

// revoked says that the sender of a message has other rights now than it was let in with, or none; nil: it has the same.
func (s *Server) revoked(ctx context.Context, extra *sdk.RequestExtra) *fault.Error {
	if v := visitorFor(ctx, extra); v == nil || s.still(ctx, v) {
		return nil
	}
	return fault.New(fault.Denied, "your rights are not what they were: nothing of this was done")
}

// identify finds out who has sent a request. Who is not known is told so; the visitor is nil then.
func (s *Server) identify(d *Door, w http.ResponseWriter, r *http.Request) *visitor {
	if d.Callers == nil {
		return &visitor{Caller: &d.Access, sender: senderOf(r), door: d, at: time.Now()}
	}
	v := &visitor{sender: senderOf(r), door: d, at: time.Now(), token: bearer(r)}
	v.keys.Store(d.keys()) // before: what changes meanwhile is noticed
	if v.token == "" {
		s.o().Refused(RefusedToken)
		d.challenge(w, "") // RFC 6750 section 3.1: who sent no token is told no error
		http.Error(w, "no bearer token", http.StatusUnauthorized)
		return nil
	}
	caller, err := d.Callers.Verify(r.Context(), v.token)
	if err != nil && fault.CodeOf(err) != fault.Denied {
		s.o().Log.Debug("a token could not be checked", "error", err) // whoever keeps the keys tells once that they are away
		s.o().Refused(RefusedKeys)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "tokens cannot be checked now", http.StatusServiceUnavailable)
		return nil
	}
	switch {
	case errors.Is(err, steps.ErrScope):
		s.refusedToken(r.Context(), &v.sender, RefusedScope, err)
		d.challenge(w, "insufficient_scope")
		http.Error(w, "the token's scopes give no rights here", http.StatusForbidden)
		return nil
	case err != nil:
		s.refusedToken(r.Context(), &v.sender, RefusedToken, err)
		d.challenge(w, "invalid_token")
		http.Error(w, "invalid token", http.StatusUnauthorized)
		return nil
	}
	v.Caller = caller
	return v
}

// readSoon is how long a message may take for its sender not to be identified again once it is read.
const readSoon = time.Second

// sentSoon tells whether nothing can have happened to the rights of a visitor since it was identified.
func (s *Server) sentSoon(v *visitor) bool {
	return s.door.Load() == v.door && v.door.keys() == v.keys.Load() && time.Since(v.at) < readSoon && !v.expired()
}

// expired tells whether the token of a visitor is not accepted any more.
func (v *visitor) expired() bool { return !v.Expires.IsZero() && !time.Now().Before(v.Expires) }

// still tells whether a visitor who was let in would be now, with the same rights. One of whom that cannot be told now stays
// for as long as its token lasts.
func (s *Server) still(ctx context.Context, v *visitor) bool {
	if v.expired() {
		return false
	}
	held, _ := s.holds(ctx, v)
	return held
}

// holds is as still, of one who is served already: that its token has expired since does not matter. sure: it could be told.
func (s *Server) holds(ctx context.Context, v *visitor) (held, sure bool) {
	d := s.door.Load()
	keys := d.keys()
	switch {
	case d == v.door && keys == v.keys.Load():
		return true, true
	case d.Callers == nil || v.token == "":
		return d.Callers == nil && v.token == "" && d.Access.ID == v.ID && settled(d.Access.Rights) == settled(v.Rights), true
	}
	verify := d.Callers.Verify
	if d.keyed != nil {
		verify = d.keyed.Hold
	}
	now, err := verify(ctx, v.token)
	if err != nil {
		denied := fault.CodeOf(err) == fault.Denied
		return !denied, denied
	}
	if now.ID != v.ID || settled(now.Rights) != settled(v.Rights) {
		return false, true
	}
	if d == v.door {
		v.keys.Store(keys)
	}
	return true, true
}

// in gives the visitor's request with the visitor in its context.
func (v *visitor) in(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
}

// known gives the context of a message with the visitor in it. That of a session of this process is of who has begun it.
func (v *visitor) known(ctx context.Context) context.Context {
	if one, _ := ctx.Value(visitorKey{}).(*visitor); one == v {
		return ctx
	}
	return context.WithValue(ctx, visitorKey{}, v)
}

// admitted hands a visitor's request on to the protocol's library, which is told whose it is.
func admitted(v *visitor, next http.Handler) http.Handler {
	if v.token == "" {
		return next
	}
	return sdkauth.RequireBearerToken(func(context.Context, string, *http.Request) (*sdkauth.TokenInfo, error) {
		return &sdkauth.TokenInfo{UserID: v.ID, Expiration: v.Expires, Extra: map[string]any{visitorField: v}}, nil
	}, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
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
	if at := d.metadataURL(); at != nil {
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

// metadataURL is where a client is told how to get a token; nil: nowhere.
func (d *Door) metadataURL() *url.URL {
	if d.own == nil || len(d.Issuers) == 0 {
		return nil
	}
	at := *d.own
	at.Path, at.RawPath, at.RawQuery = metadataPath+strings.TrimSuffix(at.Path, "/"), "", ""
	return &at
}

// metadata tells where a client gets a token.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	d := s.door.Load()
	at := d.metadataURL()
	if at == nil || !d.serves(r.Host) || r.URL.Path != metadataPath && r.URL.Path != at.Path {
		http.NotFound(w, r)
		return
	}
	sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: d.URL, AuthorizationServers: d.Issuers, ScopesSupported: d.Scopes, BearerMethodsSupported: []string{"header"},
	}).ServeHTTP(w, r)
}
