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

// authServer is a strict authorization server for tests. It requires exact redirect URIs and PKCE with S256, and accepts a code only once.
// Refresh tokens rotate, and using one twice ends the whole login.
type authServer struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	clients  map[string]testClient
	codes    map[string]url.Values // the parameters of the authorization requests, by unused code
	access   map[string]*testLogin // the logins, by access token
	refresh  map[string]*testLogin // the logins, by refresh token that can be used
	spent    map[string]*testLogin // the logins, by refresh token that was used and replaced
	requests []url.Values          // the parameters of all authorization requests
	renewals int
	revoked  []string // the token_type_hint of each revocation

	// Deviations from this behavior. They are not guarded by mu: a test sets them while no request is under way.
	metadata     func(map[string]any)                          // changes the metadata
	answer       func(url.Values)                              // changes the parameters of the redirect to the client
	token        func(http.ResponseWriter, *http.Request) bool // true: it has answered in place of the token endpoint
	register     func(http.ResponseWriter, *http.Request) bool // true: it has answered in place of the registration endpoint
	noRefresh    bool                                          // no refresh tokens are issued
	keepRefresh  bool                                          // refresh tokens do not rotate
	lifetime     int                                           // of access tokens, in seconds; 0: an hour, -1: not sent
	basic        bool                                          // registered clients get a secret, for client_secret_basic
	revokeStatus int                                           // the status with which revocations fail; 0: they succeed
}

// testClient is a registered client. An empty redirect means that any redirect URI is accepted.
type testClient struct{ secret, redirect string }

// testLogin is a login of a client, which begins with the exchange of a code and lasts as long as it is renewed.
type testLogin struct {
	client, resource string
	scopes           []string
	ended            bool // a refresh token was used twice: no token of the login is valid any more
}

func newAuthServer(t *testing.T) *authServer {
	a := &authServer{t: t, clients: map[string]testClient{}, codes: map[string]url.Values{}, access: map[string]*testLogin{},
		refresh: map[string]*testLogin{}, spent: map[string]*testLogin{}}
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
	var request oauthex.ClientRegistrationMetadata
	if json.NewDecoder(r.Body).Decode(&request) != nil || len(request.RedirectURIs) != 1 || request.ApplicationType != "native" ||
		!slices.Contains(request.GrantTypes, "refresh_token") {
		oauthError(w, "invalid_client_metadata")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id, c := "client-"+random(), testClient{redirect: request.RedirectURIs[0]}
	response := map[string]any{"client_id": id, "redirect_uris": request.RedirectURIs, "token_endpoint_auth_method": "none"}
	if a.basic {
		c.secret = "secret-" + random()
		response["client_secret"], response["client_secret_expires_at"] = c.secret, 0
		response["token_endpoint_auth_method"] = "client_secret_basic"
	}
	a.clients[id] = c
	reply(w, http.StatusCreated, response)
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
	var login *testLogin
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
		login = &testLogin{client: q.Get("client_id"), resource: q.Get("resource"), scopes: strings.Fields(q.Get("scope"))}
	case "refresh_token":
		old := r.PostForm.Get("refresh_token")
		if reused := a.spent[old]; reused != nil {
			reused.ended = true
		}
		login = a.refresh[old]
		if login == nil || login.ended || r.PostForm.Get("resource") != login.resource {
			oauthError(w, "invalid_grant")
			return
		}
		a.renewals++
		if !a.keepRefresh {
			delete(a.refresh, old)
			a.spent[old] = login
		}
	default:
		oauthError(w, "unsupported_grant_type")
		return
	}
	reply(w, http.StatusOK, a.grant(login, r.PostForm.Get("grant_type") == "authorization_code"))
}

// authenticate reports whether a request has the credentials of a known client.
func (a *authServer) authenticate(r *http.Request) bool {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c, exists := a.clients[id]
	return exists && c.secret == secret
}

// grant issues tokens for a login and returns the token response. isFirst is true for the exchange of a code, false for a renewal.
func (a *authServer) grant(login *testLogin, isFirst bool) map[string]any {
	token := "access-" + random()
	a.access[token] = login
	response := map[string]any{"access_token": token, "token_type": "bearer", "scope": strings.Join(login.scopes, " ")}
	switch a.lifetime {
	case 0:
		response["expires_in"] = 3600
	case -1:
	default:
		response["expires_in"] = a.lifetime
	}
	if !a.noRefresh && (isFirst || !a.keepRefresh) {
		refresh := "refresh-" + random()
		a.refresh[refresh] = login
		response["refresh_token"] = refresh
	}
	return response
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

// forgetAccess invalidates all access tokens, as a restart of the server might.
func (a *authServer) forgetAccess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
}

func (a *authServer) renewalCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewals
}

func (a *authServer) lastRequest() url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[len(a.requests)-1]
}

// secrets returns the secrets that the server knows now: its codes, its tokens, used ones too, and the secrets of clients.
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

// verify is an auth.TokenVerifier. It accepts the server's access tokens.
func (a *authServer) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	login := a.access[token]
	if login == nil || login.ended {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{Scopes: login.scopes, Expiration: time.Now().Add(time.Hour), UserID: "someone"}, nil
}
