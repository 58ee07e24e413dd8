package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// loginServer is an MCP server that requires a login. It is its own authorization server, which agrees to everything.
type loginServer struct {
	*httptest.Server
	mu      sync.Mutex
	asked   url.Values // by the last authorization
	secret  string     // of the client, as sent to the token endpoint
	revoked int
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
		s.asked = r.URL.Query()
		back := url.Values{"code": {"the-code"}, "state": {s.asked.Get("state")}}
		http.Redirect(w, r, s.asked.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if r.PostFormValue("code") != "the-code" || base64.RawURLEncoding.EncodeToString(sum[:]) != s.asked.Get("code_challenge") {
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

// TestAuth logs in, reads the status and logs out, as a user at a terminal does.
func TestAuth(t *testing.T) {
	// Not parallel: the login is stored in the folders of this environment. Without a bus there is no keyring, so it is a file.
	folder := t.TempDir()
	t.Setenv("HOME", folder)
	t.Setenv("AppData", folder)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(folder, ".config"))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(folder, "none"))
	t.Setenv("XDG_RUNTIME_DIR", folder)
	t.Setenv("CLIENT_SECRET", "the-client-secret")
	server := newLoginServer(t)
	config := filepath.Join(folder, "onecall.yaml")
	text := fmt.Sprintf("mcpServers:\n  my server: {url: %q, oauth: {clientId: me, clientSecret: '${CLIENT_SECRET}', scopes: [a, "+
		"b]}}\n  other: {url: 'https://mcp.example.com'}\n", server.URL+"/mcp")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (status int, out, err string) {
		var stdout bytes.Buffer
		stderr := &loginOutput{}
		s := &streams{in: strings.NewReader(""), out: &stdout, err: stderr, errWidth: func() int { return defaultWidth }}
		root := newRoot(s)
		root.SetArgs(append(args, "--config", config))
		status = s.exitStatus(root.ExecuteContext(t.Context()))
		return status, stdout.String(), stderr.String()
	}
	if status, out, _ := run("auth", "status", "my server"); status != exitFailed || !strings.Contains(out, "none") {
		t.Errorf("before: %d, %s", status, out)
	}
	if status, out, errors := run("auth", "login", "my server", "--no-browser"); status != exitOK || out != "" ||
		!strings.Contains(errors, "logged in to my server; kept in the ") {
		t.Fatalf("login: %d, %s, %s", status, out, errors)
	}
	if server.secret != "the-client-secret" || server.asked.Get("scope") != "a b" || server.asked.Get("client_id") != "me" {
		t.Errorf("the server got %q, %v", server.secret, server.asked)
	}
	status, out, _ := run("auth", "status", "--json")
	var list loginList
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != exitOK || len(list.Sources) != 2 {
		t.Fatalf("status: %d, %v, %s", status, err, out)
	}
	mine, other := list.Sources[0], list.Sources[1]
	if mine.Source != "my server" || !mine.LoggedIn || !mine.Renews || mine.Expires == nil ||
		time.Until(*mine.Expires) < 50*time.Minute || mine.Issuer != server.URL || mine.Store == "" ||
		other.Source != "other" || other.LoggedIn || other.Store != "" {
		t.Errorf("status %s", out)
	}
	if status, out, _ := run("auth", "status", "my_server"); status != exitOK || !strings.Contains(out, "yes, renews itself") ||
		strings.Contains(out, "other") {
		t.Errorf("status: %d, %s", status, out)
	}
	if status, _, errors := run("auth", "logout", "my server"); status != exitOK ||
		!strings.Contains(errors, "logged out of my server") || server.revoked == 0 {
		t.Errorf("logout: %d, %s", status, errors)
	}
	if status, _, _ := run("auth", "status", "my server"); status != exitFailed {
		t.Errorf("after: %d", status)
	}
	server.Close()
	if status, out, errors := run("auth", "login", "my server", "--no-browser"); status != 5 || out != "" ||
		!strings.Contains(errors, "my_server") || strings.Contains(errors, "the-client-secret") {
		t.Errorf("a server that is gone: %d, %s, %s", status, out, errors)
	}
}
