package login

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/porttest"
)

// Every misbehavior of a server ends with a coded error; nothing is stored, and no secret is shown.
func TestLoginRefuses(t *testing.T) {
	t.Parallel()
	type set = loginFixture
	meta := func(key string, value any) func(*set) {
		return func(s *set) { s.auth.metadata = func(m map[string]any) { m[key] = value } }
	}
	answer := func(edit func(url.Values)) func(*set) { return func(s *set) { s.auth.answer = edit } }
	token := func(do func(http.ResponseWriter, *http.Request)) func(*set) {
		return func(s *set) {
			s.auth.token = func(w http.ResponseWriter, r *http.Request) bool { do(w, r); return true }
		}
	}
	register := func(do func(http.ResponseWriter, *http.Request)) func(*set) {
		return func(s *set) {
			s.auth.register = func(w http.ResponseWriter, r *http.Request) bool { do(w, r); return true }
		}
	}
	for name, test := range map[string]struct {
		spoil   func(*set)
		code    fault.Code
		message string
	}{
		"no S256":                {meta("code_challenge_methods_supported", []string{"plain"}), fault.Denied, "S256"},
		"no PKCE":                {meta("code_challenge_methods_supported", nil), fault.Denied, "PKCE"},
		"another issuer":         {meta("issuer", "https://evil.example"), fault.Denied, "issuer"},
		"token endpoint http":    {meta("token_endpoint", "http://example.com/token"), fault.Denied, "token_endpoint"},
		"token endpoint user":    {meta("token_endpoint", "https://a:b@example.com/token"), fault.Denied, "a user or a password"},
		"revocation http":        {meta("revocation_endpoint", "http://example.com/"), fault.Denied, "https"},
		"authorization script":   {meta("authorization_endpoint", "javascript:alert(1)"), fault.Denied, "javascript"},
		"authorization fragment": {meta("authorization_endpoint", "https://example.com/#x"), fault.Denied, "fragment"},
		"no token endpoint":      {meta("token_endpoint", ""), fault.Denied, "lacks"},
		"no registration":        {meta("registration_endpoint", ""), fault.Denied, "http://127.0.0.1:"},
		"huge metadata":          {meta("x", strings.Repeat("x", 2<<20)), fault.Denied, "metadata"},
		"no metadata": {func(s *set) { s.tools.metadata.AuthorizationServers = []string{s.tools.URL} },
			fault.Denied, "no metadata"},
		"metadata of another server": {func(s *set) { s.tools.metadata.Resource = "https://example.com/mcp" }, fault.Denied, "another server"},
		"no authorization server":    {func(s *set) { s.tools.metadata.AuthorizationServers = nil }, fault.Denied, "no authorization server"},
		"auth server http": {func(s *set) { s.tools.metadata.AuthorizationServers = []string{"http://example.com"} },
			fault.Denied, "https"},
		"auth server unreachable": {func(s *set) { s.auth.Close() }, fault.Unavailable, "not read"},
		"tool server unreachable": {func(s *set) { s.tools.Close() }, fault.Unavailable, "could not be reached"},
		"metadata on plain http": {func(s *set) { s.tools.around = challenge(`Bearer resource_metadata="http://example.com/meta"`) },
			fault.Denied, "metadata is refused"},
		"no login asked for": {func(s *set) {
			s.tools.around = func(http.Handler) http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }
			s.o.ServerURL += "/"
		}, fault.BadRequest, "does not ask"},
		"another issuer answers": {answer(func(v url.Values) { v.Set("iss", "https://evil.example") }), fault.Denied, "another authorization server"},
		"no issuer answers":      {answer(func(v url.Values) { v.Del("iss") }), fault.Denied, "another authorization server"},
		"no code":                {answer(func(v url.Values) { v.Del("code") }), fault.Denied, "no code"},
		"two codes":              {answer(func(v url.Values) { v.Add("code", "b") }), fault.Denied, "no code"},
		"refused":                {answer(func(v url.Values) { v.Set("error", "access_denied"); v.Set("error_description", "the person said no") }), fault.Denied, "access_denied the person said no"},
		"another code":           {answer(func(v url.Values) { v.Set("code", "guess") }), fault.Denied, "invalid_grant"},
		"token endpoint down":    {token(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), fault.Unavailable, "503"},
		"token endpoint garbage": {token(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) }), fault.Unavailable, "no token"},
		"token of another type": {token(func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"access_token": "a", "token_type": "DPoP"})
		}), fault.Denied, "bearer"},
		"token with a line break": {token(func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"access_token": "a\r\nX: y", "token_type": "bearer"})
		}), fault.Denied, "bearer"},
		"huge token": {token(func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"access_token": strings.Repeat("a", 1<<20), "token_type": "bearer"})
		}), fault.Unavailable, "more than 1 MiB"},
		"long token": {token(func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"access_token": strings.Repeat("a", 20<<10), "token_type": "bearer"})
		}), fault.Denied, "bearer"},
		"no token": {token(func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"token_type": "bearer"}) }), fault.Unavailable, "no token"},
		"token endpoint redirects": {token(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}),
			fault.Denied, "redirects"},
		"token endpoint echoes": {token(func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			reply(w, 400, map[string]string{"error": "invalid_grant", "error_description": "unknown code " + r.PostForm.Get("code")})
		}), fault.Denied, "repeats a secret"},
		"registration refused": {register(func(w http.ResponseWriter, _ *http.Request) { oauthError(w, "invalid_redirect_uri") }), fault.Denied, "invalid_redirect_uri"},
		"registration closed":  {register(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }), fault.Denied, "status 403"},
		"registration down":    {register(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), fault.Unavailable, "status 500"},
		"registration garbage": {register(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			fmt.Fprint(w, `{"client_secret":"hidden`)
		}), fault.Denied, "status 201"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLoginFixture(t)
			test.spoil(s)
			b := &browser{}
			err := Login(t.Context(), s.o, b)
			wantError(t, s.auth, err, test.code, test.message)
			if strings.Contains(err.Error(), "hidden") || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("the error has a secret or a line break: %q", err)
			}
			s.checkLoggedIn(t, false)
		})
	}
}

// The kinds of servers and clients with which a login works.
func TestLoginWorks(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, s *loginFixture){
		"plain":               func(*testing.T, *loginFixture) {},
		"client secret":       func(_ *testing.T, s *loginFixture) { s.auth.basic = true },
		"issuer with a slash": func(_ *testing.T, s *loginFixture) { s.tools.metadata.AuthorizationServers[0] += "/" },
		"issuer not sent": func(_ *testing.T, s *loginFixture) {
			s.auth.metadata = func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
			s.auth.answer = func(v url.Values) { v.Del("iss") }
		},
		"issuer sent unannounced": func(_ *testing.T, s *loginFixture) {
			s.auth.metadata = func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
		},
		"metadata of the host": func(_ *testing.T, s *loginFixture) { s.tools.metadata.Resource = s.tools.URL },
		"metadata at the path": func(_ *testing.T, s *loginFixture) {
			s.tools.around = challenge("Bearer")
			s.tools.describe("/.well-known/oauth-protected-resource/mcp")
		},
		"metadata at the root": func(_ *testing.T, s *loginFixture) {
			s.tools.around = challenge("Basic realm=x, Bearer")
			s.tools.describe("/.well-known/oauth-protected-resource")
		},
		"metadata elsewhere broken": func(_ *testing.T, s *loginFixture) {
			s.tools.around = challenge(`Bearer resource_metadata="` + s.tools.URL + `/gone"`)
			s.tools.mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
			s.tools.describe("/.well-known/oauth-protected-resource")
		},
		"server is its own authorization server": func(_ *testing.T, s *loginFixture) {
			s.tools.around = challenge("Bearer")
			s.tools.mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
				s.auth.metadata = func(m map[string]any) { m["issuer"] = s.tools.URL }
				s.auth.answer = func(v url.Values) { v.Set("iss", s.tools.URL) }
				s.auth.serveMetadata(w, nil)
			})
		},
		"auth server configured": func(_ *testing.T, s *loginFixture) {
			s.tools.metadata.AuthorizationServers = nil
			s.o.AuthServer = s.auth.URL
		},
		"client configured": func(t *testing.T, s *loginFixture) {
			s.o.RedirectPort = freePort(t)
			s.o.ClientID, s.o.ClientSecret = "mine", "secret-of-mine"
			s.auth.clients["mine"] = testClient{secret: "secret-of-mine", redirect: fmt.Sprintf("http://127.0.0.1:%d/callback", s.o.RedirectPort)}
			s.auth.metadata = func(m map[string]any) {
				m["registration_endpoint"], m["token_endpoint_auth_methods_supported"] = "", []string{"client_secret_post"}
			}
		},
		"client document": func(_ *testing.T, s *loginFixture) {
			s.o.ClientID = "https://example.com/onecall.json"
			s.auth.clients[s.o.ClientID] = testClient{}
			s.auth.metadata = func(m map[string]any) {
				m["registration_endpoint"], m["client_id_metadata_document_supported"] = "", true
			}
		},
		"client document not supported": func(_ *testing.T, s *loginFixture) { s.o.ClientID = "https://example.com/onecall.json" },
		"no refresh":                    func(_ *testing.T, s *loginFixture) { s.auth.noRefresh = true },
		"no expiry":                     func(_ *testing.T, s *loginFixture) { s.auth.lifetime = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLoginFixture(t)
			prepare(t, s)
			s.login(t)
			s.tools.around = nil
			session, h := s.session(t)
			if err := greet(t, session); err != nil {
				t.Fatal(err)
			}
			if s.auth.noRefresh {
				return
			}
			h.setCurrent(s.editLogin(t, backdate))
			s.auth.forgetAccess()
			if err := greet(t, session); err != nil || s.auth.renewalCount() != 1 {
				t.Errorf("call with a forgotten token: %v, %d renewals, want 1", err, s.auth.renewalCount())
			}
			if err := Logout(t.Context(), s.o); err != nil || len(s.auth.revoked) != 2 {
				t.Errorf("logout: %v, revoked %q, want two tokens", err, s.auth.revoked)
			}
		})
	}
}

func TestLoginPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newLoginFixture(t)
	s.o.RedirectPort = l.Addr().(*net.TCPAddr).Port
	wantError(t, s.auth, Login(t.Context(), s.o, &browser{}), fault.Unavailable, strconv.Itoa(s.o.RedirectPort))
}

// A remote server must not direct a login to this machine. A transport that knows its name plays the server.
func TestRemoteServerNamesLoopback(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	s.o.ServerURL = "https://tools.example/mcp"
	s.o.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "tools.example" {
			t.Errorf("a request to %s was sent", r.URL.Host)
		}
		w := httptest.NewRecorder()
		if r.URL.Path == "/mcp" {
			w.WriteHeader(http.StatusUnauthorized)
		} else {
			reply(w, 200, map[string]any{"resource": s.o.ServerURL, "authorization_servers": []string{s.auth.URL}})
		}
		return w.Result(), nil
	})}
	wantError(t, s.auth, Login(t.Context(), s.o, &browser{}), fault.Denied, "this machine")
	s.o.AuthServer = "https://localhost"
	wantError(t, s.auth, Login(t.Context(), s.o, &browser{}), fault.Denied, "this machine")
}

// A redirect of the metadata is followed only to allowed addresses.
func TestMetadataRedirects(t *testing.T) {
	t.Parallel()
	for to, code := range map[string]fault.Code{"/here": "", "http://example.com/": fault.Denied, "/loop": fault.Denied} {
		s := newLoginFixture(t)
		s.tools.around = challenge("Bearer")
		const path = "/.well-known/oauth-protected-resource/mcp"
		s.tools.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
		s.tools.mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
		s.tools.mux.HandleFunc("/here", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, s.tools.metadata) })
		wantError(t, s.auth, Login(t.Context(), s.o, &browser{}), code)
	}
}

func TestLoginCancelled(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	port, err := strconv.Atoi(porttest.Reserve(t)) // no other test listens there afterwards
	if err != nil {
		t.Fatal(err)
	}
	s.o.RedirectPort = port
	ctx, cancel := context.WithCancel(t.Context())
	b := &idleUser{opened: cancel}
	wantError(t, s.auth, Login(ctx, s.o, b), fault.Cancelled, "not finished")
	if !strings.Contains(strings.Join(b.notices, "\n"), s.auth.URL+"/authorize?") {
		t.Errorf("the notices lack the address: %q", b.notices)
	}
	redirect, _ := url.Parse(b.address)
	if _, err := net.DialTimeout("tcp", mustParse(t, redirect.Query().Get("redirect_uri")).Host, time.Second); err == nil {
		t.Error("the callback still listens after the login was cancelled")
	}
	slow := newLoginFixture(t)
	slow.tools.around = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			readBody(r) // a server notices that its client has left only after it has read the request
			<-r.Context().Done()
		})
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, slow.auth, Login(ctx, slow.o, &browser{}), fault.Timeout, "timed out")
}

// The requested scopes: those that the server names, only the configured ones, or also those that a call lacked.
func TestScopes(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	if got := s.auth.lastRequest(); got.Get("scope") != "offline_access tools" || got.Get("prompt") != "consent" ||
		got.Get("resource") != s.tools.URL+"/mcp" {
		t.Errorf("the login requested %v, want the scopes offline_access and tools, a prompt for consent, and the server", got)
	}
	admin := "https://scopes.example/" + strings.Repeat("admin/", 50) // longer than what is shown of a server's text
	s.tools.around = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var call struct{ Method string }
			body := readBody(r)
			if json.Unmarshal(body, &call); call.Method == "tools/call" {
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write `+admin+`"`)
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	session, _ := s.session(t)
	wantError(t, s.auth, greet(t, session), fault.Denied, "write https://scopes.example/", "onecall auth login hub")
	if state, _ := Status(t.Context(), s.o); strings.Join(state.MissingScopes, " ") != "write "+admin || !state.LoggedIn {
		t.Errorf("got status %+v, want logged in with the missing scopes write and %s", state, admin)
	}
	s.login(t)
	if got := s.auth.lastRequest().Get("scope"); got != admin+" offline_access tools write" {
		t.Errorf("the login after the refusal requested %q, want %s offline_access tools write", got, admin)
	}
	if state, _ := Status(t.Context(), s.o); len(state.MissingScopes) != 0 {
		t.Errorf("got status %+v, want no missing scopes", state)
	}
	s.o.Scopes = []string{"tools"}
	s.login(t)
	if got := s.auth.lastRequest().Get("scope"); got != "tools" {
		t.Errorf("the login requested %q, want the configured tools", got)
	}
	session, _ = s.session(t)
	wantError(t, s.auth, greet(t, session), fault.Denied, "write https://scopes.example/", "in the configuration")
}

// Any other 403 is the server's own decision, and is shown.
func TestForbidden(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	for body, shown := range map[string]string{`{"why":"blocked"}`: `{"why":"blocked"}`, "go away\n": `"go away"`, "": "", "echo": ""} {
		s.tools.around = func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				if body == "echo" {
					fmt.Fprint(w, r.Header.Get("Authorization"))
					return
				}
				fmt.Fprint(w, body)
			})
		}
		_, _, err := s.connect(t)
		wantError(t, s.auth, err, fault.Denied, "403")
		if f, _ := fault.As(err); f.Status != 403 || string(f.Body) != shown {
			t.Errorf("status %d, body %q, want 403, %q", f.Status, f.Body, shown)
		}
	}
}
