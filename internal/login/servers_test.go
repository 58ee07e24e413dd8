package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// authServer is an authorization server that is as strict as the standards allow: exact redirect URIs, PKCE, codes that work once, and
// refresh tokens that rotate and end the whole login if they are used twice.
type authServer struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	clients  map[string]testClient
	codes    map[string]url.Values   // the parameters of the authorization request
	access   map[string]*testAccount // the accounts, by access token
	refresh  map[string]*testAccount
	spent    map[string]*testAccount // the accounts of refresh tokens that were used
	requests []url.Values            // the authorization requests
	renewals int
	revoked  []string

	// The ways in which the server misbehaves, set before it is used.
	metadata     func(map[string]any)
	answer       func(url.Values)                              // changes the parameters of the redirect
	token        func(http.ResponseWriter, *http.Request) bool // true: it has answered in place of the token endpoint
	register     func(http.ResponseWriter, *http.Request) bool
	noRefresh    bool
	keepRefresh  bool // refresh tokens do not rotate
	lifetime     int  // the lifetime of access tokens in seconds; 0: an hour, -1: not sent
	basic        bool // registered clients get a secret, for the header
	revokeStatus int  // status of the revocation endpoint; 0: 200
}

type testClient struct{ secret, redirect string }

type testAccount struct {
	client, resource string
	scopes           []string
	dead             bool
}

func newAuthServer(t *testing.T) *authServer {
	a := &authServer{t: t, clients: map[string]testClient{}, codes: map[string]url.Values{}, access: map[string]*testAccount{},
		refresh: map[string]*testAccount{}, spent: map[string]*testAccount{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", a.serveMetadata)
	mux.HandleFunc("POST /register", a.serveRegister)
	mux.HandleFunc("GET /authorize", a.serveAuthorize)
	mux.HandleFunc("POST /token", a.serveToken)
	mux.HandleFunc("POST /revoke", a.serveRevoke)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func oauthError(w http.ResponseWriter, code string) {
	reply(w, http.StatusBadRequest, map[string]string{"error": code})
}

func (a *authServer) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token",
		"registration_endpoint": a.URL + "/register", "revocation_endpoint": a.URL + "/revoke", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"plain", "S256"}, "authorization_response_iss_parameter_supported": true,
		"scopes_supported": []string{"tools", "offline_access"}}
	if a.metadata != nil {
		a.metadata(m)
	}
	reply(w, http.StatusOK, m)
}

func (a *authServer) serveRegister(w http.ResponseWriter, r *http.Request) {
	if a.register != nil && a.register(w, r) {
		return
	}
	var asked oauthex.ClientRegistrationMetadata
	if json.NewDecoder(r.Body).Decode(&asked) != nil || len(asked.RedirectURIs) != 1 || asked.ApplicationType != "native" ||
		!slices.Contains(asked.GrantTypes, "refresh_token") {
		oauthError(w, "invalid_client_metadata")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id, c := "client-"+random(), testClient{redirect: asked.RedirectURIs[0]}
	got := map[string]any{"client_id": id, "redirect_uris": asked.RedirectURIs, "token_endpoint_auth_method": "none"}
	if a.basic {
		c.secret = "secret-" + random()
		got["client_secret"], got["client_secret_expires_at"], got["token_endpoint_auth_method"] = c.secret, 0, "client_secret_basic"
	}
	a.clients[id] = c
	reply(w, http.StatusCreated, got)
}

func (a *authServer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := r.URL.Query()
	a.requests = append(a.requests, q)
	c, known := a.clients[q.Get("client_id")]
	if !known || c.redirect != "" && c.redirect != q.Get("redirect_uri") || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("resource") == "" {
		http.Error(w, "bad authorization request", http.StatusBadRequest)
		return
	}
	code := "code-" + random()
	a.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {a.URL}}
	if a.answer != nil {
		a.answer(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (a *authServer) serveToken(w http.ResponseWriter, r *http.Request) {
	if a.token != nil && a.token(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.ParseForm() != nil || !a.authenticate(r) {
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	var account *testAccount
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		q, ok := a.codes[r.PostForm.Get("code")]
		delete(a.codes, r.PostForm.Get("code"))
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
			r.PostForm.Get("redirect_uri") != q.Get("redirect_uri") ||
			r.PostForm.Get("resource") != q.Get("resource") {
			oauthError(w, "invalid_grant")
			return
		}
		account = &testAccount{client: q.Get("client_id"), resource: q.Get("resource"), scopes: strings.Fields(q.Get("scope"))}
	case "refresh_token":
		old := r.PostForm.Get("refresh_token")
		if reused := a.spent[old]; reused != nil {
			reused.dead = true
		}
		account = a.refresh[old]
		if account == nil || account.dead || r.PostForm.Get("resource") != account.resource {
			oauthError(w, "invalid_grant")
			return
		}
		a.renewals++
		if !a.keepRefresh {
			delete(a.refresh, old)
			a.spent[old] = account
		}
	default:
		oauthError(w, "unsupported_grant_type")
		return
	}
	reply(w, http.StatusOK, a.grant(account, r.PostForm.Get("grant_type") == "authorization_code"))
}

// authenticate reports whether the client's credentials are valid.
func (a *authServer) authenticate(r *http.Request) bool {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c, exists := a.clients[id]
	return exists && c.secret == secret
}

func (a *authServer) grant(account *testAccount, first bool) map[string]any {
	token := "access-" + random()
	a.access[token] = account
	got := map[string]any{"access_token": token, "token_type": "bearer", "scope": strings.Join(account.scopes, " ")}
	switch a.lifetime {
	case 0:
		got["expires_in"] = 3600
	case -1:
	default:
		got["expires_in"] = a.lifetime
	}
	if !a.noRefresh && (first || !a.keepRefresh) {
		refresh := "refresh-" + random()
		a.refresh[refresh] = account
		got["refresh_token"] = refresh
	}
	return got
}

func (a *authServer) serveRevoke(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.revokeStatus != 0 {
		w.WriteHeader(a.revokeStatus)
		return
	}
	if r.ParseForm() != nil || !a.authenticate(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token := r.PostForm.Get("token")
	a.revoked = append(a.revoked, r.PostForm.Get("token_type_hint"))
	delete(a.access, token)
	delete(a.refresh, token)
}

// forgetAccess invalidates every access token, as a restart of the server does.
func (a *authServer) forgetAccess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
}

func (a *authServer) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewals
}

func (a *authServer) lastRequest() url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[len(a.requests)-1]
}

// secrets returns all texts that must never be shown.
func (a *authServer) secrets() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Keys(a.access)), slices.Collect(maps.Keys(a.refresh)), slices.Collect(maps.Keys(a.spent)),
		slices.Collect(maps.Keys(a.codes)))
	for _, c := range a.clients {
		if c.secret != "" {
			all = append(all, c.secret)
		}
	}
	return all
}

func (a *authServer) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account := a.access[token]
	if account == nil || account.dead {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{Scopes: account.scopes, Expiration: time.Now().Add(time.Hour), UserID: "someone"}, nil
}
