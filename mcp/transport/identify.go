package transport

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

// identity is the sender of an HTTP request, and how it was identified.
type identity struct {
	*steps.Caller
	remote
	access       *Access
	keysVersion  atomic.Uint64 // version of the keys that verified the token
	identifiedAt time.Time     // time of identification
	token        string        // the bearer token; "": no token is required
	target       any           // parsed from the request's URL
	host         string        // the host that the request was sent to, which is served

	admitted    bool         // its calls may begin even after the server has begun to close
	reservation *reservation // the place that is held for the session that the request begins; nil: none
	releaseSlot func()       // releases the message's decoding slot; nil: none
}

type identityKey struct{}

// identityField is the key under which the SDK carries a request's identity.
const identityField = "identity"

// identityOf returns the sender of a message; nil: it did not come over HTTP. In a session ctx belongs to the request that began
// the session, so the identity in extra wins. extra nil: ctx is the request's own.
func identityOf(ctx context.Context, extra *sdk.RequestExtra) *identity {
	if extra != nil && extra.TokenInfo != nil {
		if from, ok := extra.TokenInfo.Extra[identityField].(*identity); ok {
			return from
		}
	}
	from, _ := ctx.Value(identityKey{}).(*identity)
	return from
}

// identify returns the sender of a request. It answers the request itself and returns nil if the sender is not accepted.
func (s *Server) identify(a *Access, target any, w http.ResponseWriter, r *http.Request) *identity {
	from := &identity{
		Caller: &a.Anyone, remote: remote{r.RemoteAddr, r.Header["X-Forwarded-For"]},
		access: a, identifiedAt: time.Now(), target: target, host: r.Host,
	}
	if a.Callers == nil {
		from.bring(r)
		return from
	}
	from.token = bearer(r)
	from.keysVersion.Store(a.keysVersion()) // read before Verify, so a change meanwhile is noticed
	if from.token == "" {
		s.opts().Refused(reasonToken)
		a.challenge(w, "") // RFC 6750, section 3.1: no error code if no token was sent
		http.Error(w, "no bearer token", http.StatusUnauthorized)
		return nil
	}
	caller, err := a.Callers.Verify(r.Context(), from.token)
	switch {
	case err == nil:
		known := *caller
		known.Rights = known.Rights.WithDefaultTier()
		from.Caller = &known
		from.bring(r)
		return from
	case fault.CodeOf(err) != fault.Denied:
		s.opts().Log.Debug("a token could not be checked", "error", err) // logged once, by the owner of the keys
		s.opts().Refused(reasonKeys)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "tokens cannot be checked now", http.StatusServiceUnavailable)
	case errors.Is(err, steps.ErrScope):
		s.logRefusedToken(r.Context(), &from.remote, reasonScope, err)
		a.challenge(w, "insufficient_scope")
		http.Error(w, fault.Message(err), http.StatusForbidden)
	default:
		s.logRefusedToken(r.Context(), &from.remote, reasonToken, err)
		a.challenge(w, "invalid_token")
		http.Error(w, "invalid token", http.StatusUnauthorized)
	}
	return nil
}

// bring adds what the request brings for sources that are called as their callers.
func (i *identity) bring(r *http.Request) {
	if i.access.Credentials == nil {
		return
	}
	if credentials := i.access.Credentials(i.Caller, r.Header); credentials != "" {
		caller := *i.Caller
		caller.Rights.Credentials = credentials
		i.Caller = &caller
	}
}

// maxIdentityAge is how old an identity may be, once the message is read, before the sender is identified again.
const maxIdentityAge = time.Second

// unchanged reports whether the caller's rights cannot have changed since it was identified.
func (s *Server) unchanged(from *identity) bool {
	return s.access.Load() == from.access && from.access.keysVersion() == from.keysVersion.Load() &&
		time.Since(from.identifiedAt) < maxIdentityAge && !from.expired()
}

// expired reports whether the caller's token has expired.
func (i *identity) expired() bool { return !i.Expires.IsZero() && !time.Now().Before(i.Expires) }

// permitted reports whether an identified caller still has the same rights, even if its token has expired since. checked is false if
// that could not be checked; ok is true then.
func (s *Server) permitted(ctx context.Context, from *identity) (ok, checked bool) {
	a := s.access.Load()
	keys := a.keysVersion()
	switch {
	case a == from.access && keys == from.keysVersion.Load():
		return true, true
	case a.Callers == nil || from.token == "":
		return a.Callers == nil && from.token == "" && a.Anyone.ID == from.ID && a.Anyone.Rights.Equal(from.Rights), true
	}
	verify := a.Callers.Verify
	if a.revocable != nil {
		verify = a.revocable.Reverify
	}
	now, err := verify(ctx, from.token)
	if err != nil {
		denied := fault.CodeOf(err) == fault.Denied
		return !denied, denied
	}
	if now.ID != from.ID || !now.Rights.WithDefaultTier().Equal(from.Rights) {
		return false, true
	}
	if a == from.access {
		from.keysVersion.Store(keys)
	}
	return true, true
}

// withTokenInfo passes the identity on through the SDK. Without a token it does nothing: then identityOf finds the identity in the context.
func (i *identity) withTokenInfo(next http.HandlerFunc) http.Handler {
	if i.token == "" {
		return next
	}
	return sdkauth.RequireBearerToken(func(context.Context, string, *http.Request) (*sdkauth.TokenInfo, error) {
		return &sdkauth.TokenInfo{UserID: i.ID, Expiration: i.Expires, Extra: map[string]any{identityField: i}}, nil
	}, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

// bearer returns the bearer token of a request; "": none, or more than one.
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

// challenge sets the WWW-Authenticate header (RFC 6750, section 3; RFC 9728, section 5.1); problem "": no token was sent.
func (a *Access) challenge(w http.ResponseWriter, problem string) {
	params := []string{`realm="onecall"`}
	if problem != "" {
		params = append(params, fmt.Sprintf("error=%q", problem))
	}
	if at := a.metadataURL(); at != nil {
		params = append(params, fmt.Sprintf("resource_metadata=%q", at))
		if len(a.Scopes) > 0 {
			params = append(params, fmt.Sprintf("scope=%q", strings.Join(a.Scopes, " ")))
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer "+strings.Join(params, ", "))
}

// metadataPath is the well-known path of protected resource metadata; a resource's own path is appended to it (RFC 9728, section
// 3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataURL returns where clients find the metadata; nil: none is published.
func (a *Access) metadataURL() *url.URL {
	if a.publicURL == nil || len(a.Issuers) == 0 {
		return nil
	}
	at := *a.publicURL
	at.Path, at.RawPath, at.RawQuery = metadataPath+strings.TrimSuffix(at.Path, "/"), "", ""
	return &at
}

// handleMetadata serves the metadata that tells clients where to get a token.
func (s *Server) handleMetadata(w http.ResponseWriter, r *http.Request) {
	a := s.access.Load()
	at := a.metadataURL()
	if at == nil || !a.servesHost(r.Host) || r.URL.Path != metadataPath && r.URL.Path != at.Path {
		http.NotFound(w, r)
		return
	}
	sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: a.URL, AuthorizationServers: a.Issuers, ScopesSupported: a.Scopes, BearerMethodsSupported: []string{"header"},
	}).ServeHTTP(w, r)
}
