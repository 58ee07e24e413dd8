//go:build e2e && unix

package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// accountServer is an authorization server that asks people whether they are who they are. Its page is of another site than the console.
func accountServer(t *testing.T) (issuer string) {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]url.Values{} // the parameters of a login by its code
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		code := "code-" + q.Get("state")
		mu.Lock()
		asked[code] = q
		mu.Unlock()
		back := url.Values{"state": {q.Get("state")}, "code": {code}}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><title>Accounts</title><a id="yes" href="%s">It is me</a>`,
			html.EscapeString(q.Get("redirect_uri")+"?"+back.Encode()))
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		q := asked[r.PostFormValue("code")]
		mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if q == nil || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer(w, map[string]any{"access_token": "token-0123456789", "refresh_token": "renew-0123456789", "token_type": "Bearer", "expires_in": 3600})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	issuer = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return issuer
}

// TestConsoleLogin: a person logs in to a source in a browser, which comes from another site with the answer, and logs out again.
func TestConsoleLogin(t *testing.T) {
	t.Parallel()
	const ann = "oc_token-of-ann"
	s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf(
		"http: {endpoints: {note: {url: \"http://127.0.0.1:9/note\", auth: {caller: login, authServer: %q, clientId: me}}}}\n"+
			"access: {tokens: [{name: ann, sha256: %q}]}\n", accountServer(t), tokenHash(ann))), "--console")
	w := s.openWindow(t)
	w.login(ann)
	w.do(chromedp.Navigate(w.base+"sources"), chromedp.Click(chromedp.CSS(`button[aria-label="Log in to http.note"]`)),
		chromedp.Click(chromedp.CSS("#yes")), chromedp.Click(chromedp.CSS(`button[aria-label="Log out of http.note"]`)),
		chromedp.WaitVisible(chromedp.CSS(`button[aria-label="Log in to http.note"]`)))
}
