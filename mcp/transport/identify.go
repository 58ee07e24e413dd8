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

// identity is who has sent a request over HTTP, and by what it was identified.
type identity struct {
	*steps.Caller
	remote
	access *Access
	keys   atomic.Uint64 // of the access, by which its token was verified
	at     time.Time     // when it was identified
	token  string        // "": none is asked for
	target any           // what the request's URL asks for

	admitted    bool         // its calls may begin although the server closes: it is waited for
	reservation *reservation // for the session that the request begins; nil: it begins none
	decoded     func()       // releases the slot that its message is decoded with; nil: there is none
}

type identityKey struct{}

// identityField is where the protocol's library keeps the identity of a request.
const identityField = "identity"

// identityOf is who has sent a message; nil: it did not come over HTTP. The context of a message in a session is that of the
// request that has begun the session: of callers with tokens the library keeps each request's own. extra nil: ctx is the request's.
func identityOf(ctx context.Context, extra *sdk.RequestExtra) *identity {
	if extra != nil && extra.TokenInfo != nil {
		if from, ok := extra.TokenInfo.Extra[identityField].(*identity); ok {
			return from
		}
	}
	from, _ := ctx.Value(identityKey{}).(*identity)
	return from
}

// identify finds out who has sent a request. It answers one of somebody who is not known; the identity is nil then.
func (s *Server) identify(a *Access, target any, w http.ResponseWriter, r *http.Request) *identity {
	from := &identity{Caller: &a.Anyone, remote: remote{r.RemoteAddr, r.Header["X-Forwarded-For"]}, access: a, at: time.Now(), target: target}
	if a.Callers == nil {
		return from
	}
	from.token = bearer(r)
	from.keys.Store(a.keys()) // before: what changes meanwhile is noticed
	if from.token == "" {
		s.o().Refused(reasonToken)
		a.challenge(w, "") // RFC 6750 section 3.1: a client that sent no token is told no error
		http.Error(w, "no bearer token", http.StatusUnauthorized)
		return nil
	}
	caller, err := a.Callers.Verify(r.Context(), from.token)
	switch {
	case err == nil:
		known := *caller
		known.Rights = known.Rights.Settled()
		from.Caller = &known
		return from
	case fault.CodeOf(err) != fault.Denied:
		s.o().Log.Debug("a token could not be checked", "error", err) // the holder of the keys logs once that they are missing
		s.o().Refused(reasonKeys)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "tokens cannot be checked now", http.StatusServiceUnavailable)
	case errors.Is(err, steps.ErrScope):
		s.logRefusedToken(r.Context(), &from.remote, reasonScope, err)
		a.challenge(w, "insufficient_scope")
		http.Error(w, "the token's scopes give no rights here", http.StatusForbidden)
	default:
		s.logRefusedToken(r.Context(), &from.remote, reasonToken, err)
		a.challenge(w, "invalid_token")
		http.Error(w, "invalid token", http.StatusUnauthorized)
	}
	return nil
}

// maxIdentityAge is how long a message may take to be read without its sender being identified again.
const maxIdentityAge = time.Second

// unchanged reports whether nothing can have happened to the rights of a caller since it was identified.
func (s *Server) unchanged(from *identity) bool {
	return s.access.Load() == from.access && from.access.keys() == from.keys.Load() && time.Since(from.at) < maxIdentityAge && !from.expired()
}

// expired reports whether the caller's token is not accepted any more.
func (i *identity) expired() bool { return !i.Expires.IsZero() && !time.Now().Before(i.Expires) }

// permitted reports whether a caller that was identified has the same rights now, also if its token has expired since. sure: that
// is known. If it is not, the caller keeps them.
func (s *Server) permitted(ctx context.Context, from *identity) (ok, sure bool) {
	a := s.access.Load()
	keys := a.keys()
	switch {
	case a == from.access && keys == from.keys.Load():
		return true, true
	case a.Callers == nil || from.token == "":
		return a.Callers == nil && from.token == "" && a.Anyone.ID == from.ID && a.Anyone.Rights == from.Rights, true
	}
	verify := a.Callers.Verify
	if a.keyed != nil {
		verify = a.keyed.Hold
	}
	now, err := verify(ctx, from.token)
	if err != nil {
		denied := fault.CodeOf(err) == fault.Denied
		return !denied, denied
	}
	if now.ID != from.ID || now.Rights.Settled() != from.Rights {
		return false, true
	}
	if a == from.access {
		from.keys.Store(keys)
	}
	return true, true
}

// withTokenInfo tells the protocol's library who has sent a request.
func (i *identity) withTokenInfo(next http.HandlerFunc) http.Handler {
	if i.token == "" {
		return next
	}
	return sdkauth.RequireBearerToken(func(context.Context, string, *http.Request) (*sdkauth.TokenInfo, error) {
		return &sdkauth.TokenInfo{UserID: i.ID, Expiration: i.Expires, Extra: map[string]any{identityField: i}}, nil
	}, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

// bearer is the token that a request carries; "": it carries none, or more than one.
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

// challenge says how a caller is authenticated (RFC 6750 section 3, RFC 9728 section 5.1); problem "": it has not tried yet.
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

// metadataPath is where clients look for the metadata of a protected resource; that of a resource with a path stands under
// it with the path (RFC 9728 section 3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataURL is where a client finds how to get a token; nil: nowhere.
func (a *Access) metadataURL() *url.URL {
	if a.own == nil || len(a.Issuers) == 0 {
		return nil
	}
	at := *a.own
	at.Path, at.RawPath, at.RawQuery = metadataPath+strings.TrimSuffix(at.Path, "/"), "", ""
	return &at
}

// metadata answers where a client gets a token.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	a := s.access.Load()
	at := a.metadataURL()
	if at == nil || !a.serves(r.Host) || r.URL.Path != metadataPath && r.URL.Path != at.Path {
		http.NotFound(w, r)
		return
	}
	sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: a.URL, AuthorizationServers: a.Issuers, ScopesSupported: a.Scopes, BearerMethodsSupported: []string{"header"},
	}).ServeHTTP(w, r)
}
