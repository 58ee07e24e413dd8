package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sync"
	"testing"
)

// loginServer is an MCP server that requires a login. It is its own authorization server, which agrees to everything.
type loginServer struct {
	*httptest.Server
	mu         sync.Mutex
	authorized url.Values // parameters of the last authorization
	secret     string     // the client's secret, as sent to the token endpoint
	revoked    int
}

func newLoginServer(t *testing.T) *loginServer {
	s := &loginServer{}
	answer := func(w http.ResponseWriter, value map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"revocation_endpoint": s.URL + "/revoke", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported":      []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"client_secret_post"}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.authorized = r.URL.Query()
		redirect := url.Values{"code": {"the-code"}, "state": {s.authorized.Get("state")}}
		http.Redirect(w, r, s.authorized.Get("redirect_uri")+"?"+redirect.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if r.PostFormValue("code") != "the-code" || base64.RawURLEncoding.EncodeToString(sum[:]) != s.authorized.Get("code_challenge") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.secret = r.PostFormValue("client_secret")
		answer(w, map[string]any{"access_token": "the-access-token", "refresh_token": "the-refresh-token", "token_type": "bearer",
			"expires_in": 3600, "scope": "a b"})
	})
	mux.HandleFunc("/revoke", func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revoked++
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// loginOutput is a standard error that opens the URL to log in, as a user does in a browser.
type loginOutput struct {
	mu   sync.Mutex
	text bytes.Buffer
	once sync.Once
}

var pageToOpen = regexp.MustCompile(`(?m)^    (http\S+)$`)

func (o *loginOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if page := pageToOpen.FindSubmatch(o.text.Bytes()); page != nil {
		o.once.Do(func() {
			go func() {
				if answer, err := http.Get(string(page[1])); err == nil {
					answer.Body.Close()
				}
			}()
		})
	}
	return len(p), nil
}

func (o *loginOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
