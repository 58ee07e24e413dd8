package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func securedOperation(method string, alternatives ...requirement) operation {
	return operation{name: "op", method: method, path: "/a", label: method + " /a", input: json.RawMessage(anyInput), security: alternatives}
}

var allSchemes = map[string]scheme{
	"headerKey": {kind: "apiKey", in: "header", name: "x-api-key"},
	"queryKey":  {kind: "apiKey", in: "query", name: "api key"},
	"cookieKey": {kind: "apiKey", in: "cookie", name: "sid"},
	"basic":     {kind: "basic"},
	"bearer":    {kind: "bearer"},
	"oauth":     {kind: "oauth2", tokenURL: "https://auth.example.com/token"},
	"odd":       {kind: "other"},
}

const keyValue = "k3y-that-is-secret"

func TestCredentials(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		auth     map[string]Credential
		security []requirement
		want     string // how the credential was sent
	}{
		{"header", map[string]Credential{"headerKey": {Value: keyValue}}, []requirement{{"headerKey": nil}}, "X-Api-Key: " + keyValue},
		{"query", map[string]Credential{"queryKey": {Value: "a&b"}}, []requirement{{"queryKey": nil}}, "?api%20key=a%26b"},
		{"cookie", map[string]Credential{"cookieKey": {Value: keyValue}}, []requirement{{"cookieKey": nil}}, "Cookie: sid=" + keyValue},
		{"basic", map[string]Credential{"basic": {Username: "u", Password: "p:w"}}, []requirement{{"basic": nil}},
			"Authorization: Basic dTpwOnc="},
		{"bearer", map[string]Credential{"bearer": {Value: keyValue}}, []requirement{{"bearer": nil}}, "Authorization: Bearer " + keyValue},
		{"oauth with a token", map[string]Credential{"oauth": {Value: keyValue}}, []requirement{{"oauth": nil}},
			"Authorization: Bearer " + keyValue},
		{"other", map[string]Credential{"odd": {Value: "Odd x"}}, []requirement{{"odd": nil}}, "Authorization: Odd x"},
		{"not required", map[string]Credential{"bearer": {Value: keyValue}}, nil, ""},
		{"optional, but configured", map[string]Credential{"bearer": {Value: keyValue}}, []requirement{{}, {"bearer": nil}},
			"Authorization: Bearer " + keyValue},
		{"both", map[string]Credential{"bearer": {Value: keyValue}, "headerKey": {Value: "h"}}, []requirement{{"bearer": nil, "headerKey": nil}},
			"Authorization: Bearer " + keyValue + "|X-Api-Key: h"},
		{"one of two is not configured", map[string]Credential{"bearer": {Value: keyValue}},
			[]requirement{{"bearer": nil, "headerKey": nil}}, ""},
		{"the first that is configured", map[string]Credential{"bearer": {Value: keyValue}, "basic": {Username: "u"}},
			[]requirement{{"oauth": nil}, {"bearer": nil}, {"basic": nil}}, "Authorization: Bearer " + keyValue},
	} {
		var c capture
		s := sourceOf(t, Options{Client: &c, BaseURL: "https://api.example.com", Auth: test.auth},
			&document{operations: []operation{securedOperation("GET", test.security...)}, schemes: allSchemes})
		if _, err := callOf(t, s, "op", `{}`); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got []string
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
			if value := c.last.header.Get(name); value != "" {
				got = append(got, name+": "+value)
			}
		}
		if _, query, ok := strings.Cut(c.last.url, "?"); ok {
			got = append(got, "?"+query)
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%s: sent %q, want %q", test.name, got, test.want)
		}
	}
}

// TestConfigurationWins: an argument cannot replace a configured value in the same position; cookies are added to the configured ones.
func TestConfigurationWins(t *testing.T) {
	t.Parallel()
	op := securedOperation("GET", requirement{"queryKey": nil, "cookieKey": nil, "bearer": nil})
	for _, p := range []parameter{{name: "api key", in: "query", style: "form"}, {name: "sid", in: "cookie", style: "form"},
		{name: "Authorization", in: "header", style: "simple"}, {name: "X-Tenant", in: "header", style: "simple"},
		{name: "lang", in: "cookie", style: "form"}} {
		p.arg = p.name
		op.parameters = append(op.parameters, p)
	}
	var c capture
	s := sourceOf(t, Options{Client: &c, BaseURL: "https://api.example.com",
		Headers: map[string]string{"x-tenant": "mine", "Cookie": "session=configured"},
		Auth:    map[string]Credential{"queryKey": {Value: "q"}, "cookieKey": {Value: "c"}, "bearer": {Value: "b"}}},
		&document{operations: []operation{op}, schemes: allSchemes})
	if _, err := callOf(t, s, "op", `{"api key":"evil","sid":"evil","Authorization":"evil","X-Tenant":"evil","lang":"de"}`); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.last); strings.Contains(got, "evil") || !strings.Contains(got, "mine") ||
		c.last.header.Get("Cookie") != "session=configured; lang=de; sid=c" {
		t.Errorf("got %s, want mine and the configured cookie, and nothing evil", got)
	}
}

func TestBadCredentials(t *testing.T) {
	t.Parallel()
	one := map[string]scheme{"only": {kind: "bearer"}}
	for _, test := range []struct {
		name    string
		auth    map[string]Credential
		schemes map[string]scheme
		at      string // the position of the fault; "": the credentials are accepted
	}{
		{"the only one", map[string]Credential{"default": {Value: "x"}}, one, ""},
		{"the only one, unnamed", map[string]Credential{"": {Value: "x"}}, one, ""},
		{"twice", map[string]Credential{"default": {Value: "x"}, "only": {Value: "y"}}, one, "/auth/only"},
		{"several", map[string]Credential{"default": {Value: "x"}}, allSchemes, "/auth/default"},
		{"none", map[string]Credential{"default": {Value: "x"}}, nil, "/auth/default"},
		{"unknown", map[string]Credential{"only2": {Value: "x"}}, one, "/auth/only2"},
		{"no value", map[string]Credential{"only": {Username: "x"}}, one, "/auth/only"},
		{"a line break", map[string]Credential{"only": {Value: "x\ny-secret-part"}}, one, "/auth/only"},
		{"no user", map[string]Credential{"basic": {Value: "x"}}, allSchemes, "/auth/basic"},
		{"a colon", map[string]Credential{"basic": {Username: "a:b"}}, allSchemes, "/auth/basic"},
		{"no secret", map[string]Credential{"oauth": {ClientID: "x"}}, allSchemes, "/auth/oauth"},
		{"no token URL", map[string]Credential{"only": {ClientID: "x", ClientSecret: "y"}}, map[string]scheme{"only": {kind: "oauth2"}},
			"/auth/only"},
		{"a token URL without TLS", map[string]Credential{"only": {ClientID: "x", ClientSecret: "y"}},
			map[string]scheme{"only": {kind: "oauth2", tokenURL: "http://auth.example.com"}}, "/auth/only"},
		{"a token URL that only the document names", map[string]Credential{"oauth": {ClientID: "x", ClientSecret: "y"}}, allSchemes,
			"/auth/oauth"},
		{"a token URL of the configuration",
			map[string]Credential{"oauth": {ClientID: "x", ClientSecret: "y", TokenURL: "https://auth.example.com/token"}}, allSchemes, ""},
		{"a token URL where the document is", map[string]Credential{"only": {ClientID: "x", ClientSecret: "y"}},
			map[string]scheme{"only": {kind: "oauth2", tokenURL: "/token"}}, ""},
	} {
		s, err := trySource(Options{Client: &capture{}, Auth: test.auth},
			&document{title: "T", operations: []operation{securedOperation("GET")}, schemes: test.schemes})
		f, _ := fault.As(err)
		switch {
		case err == nil && test.at == "":
			_ = s.Close()
		case f == nil || f.Code != fault.BadRequest || f.At != test.at || strings.Contains(err.Error(), "secret-part"):
			t.Errorf("%s: %v, want bad_request at %q", test.name, err, test.at)
		}
	}
}

// authority is a token endpoint.
type authority struct {
	fetched, revoked atomic.Int64
	lifetime         int
	failing          http.HandlerFunc
	delay            time.Duration
	scopes           sync.Map
}

func (a *authority) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path != "/token" {
		if want := fmt.Sprintf("Bearer token-number-%d", a.fetched.Load()); request.Header.Get("Authorization") != want ||
			a.revoked.Load() == a.fetched.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return
	}
	time.Sleep(a.delay)
	if a.failing != nil {
		a.failing(w, request)
		return
	}
	id, secret, _ := request.BasicAuth()
	if request.FormValue("grant_type") != "client_credentials" || id != "client" || secret != "client-secret-1" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a.scopes.Store(request.FormValue("scope"), true)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"token-number-%d","token_type":"bearer","expires_in":%d}`, a.fetched.Add(1), a.lifetime)
}

func clientSource(t *testing.T, a *authority, c Credential) *Source {
	c.ClientID, c.ClientSecret, c.TokenURL = "client", "client-secret-1", allSchemes["oauth"].tokenURL
	return sourceOf(t, Options{Client: mockTransport{a}, BaseURL: "https://api.example.com", Auth: map[string]Credential{"oauth": c}},
		&document{operations: []operation{securedOperation("POST", requirement{"oauth": {"read", "write"}})}, schemes: allSchemes})
}

func TestTokensAreStoredAndRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &authority{lifetime: 60, delay: time.Second}
		s := clientSource(t, a, Credential{})
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if _, err := callOf(t, s, "op", `{}`); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if n := a.fetched.Load(); n != 1 {
			t.Errorf("%d tokens were fetched for concurrent calls, want 1", n)
		}
		time.Sleep(time.Minute)
		if _, err := callOf(t, s, "op", `{}`); err != nil || a.fetched.Load() != 2 {
			t.Errorf("%d tokens were fetched after the first expired, want 2: %v", a.fetched.Load(), err)
		}
		a.revoked.Store(2)
		if _, err := callOf(t, s, "op", `{}`); err != nil || a.fetched.Load() != 3 {
			t.Errorf("%d tokens were fetched after one was revoked, want 3: %v", a.fetched.Load(), err)
		}
		if _, requested := a.scopes.Load("read write"); !requested {
			t.Error("the operation's scopes were not requested")
		}
	})
}

// TestSecondAttemptSendsSameCookies: after a token was revoked, the second attempt sends each cookie once.
func TestSecondAttemptSendsSameCookies(t *testing.T) {
	t.Parallel()
	a := &authority{lifetime: 60}
	a.revoked.Store(1)
	var sent []string
	client := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/token" {
			sent = append(sent, request.Header.Get("Cookie"))
		}
		a.ServeHTTP(w, request)
	})
	op := securedOperation("GET", requirement{"oauth": nil, "cookieKey": nil})
	op.parameters = []parameter{{name: "lang", arg: "lang", in: "cookie", style: "form"}}
	s := sourceOf(t, Options{Client: mockTransport{client}, BaseURL: "https://api.example.com",
		Headers: map[string]string{"Cookie": "session=configured"},
		Auth: map[string]Credential{"cookieKey": {Value: "c"},
			"oauth": {ClientID: "client", ClientSecret: "client-secret-1", TokenURL: allSchemes["oauth"].tokenURL}}},
		&document{operations: []operation{op}, schemes: allSchemes})
	if _, err := callOf(t, s, "op", `{"lang":"de"}`); err != nil {
		t.Fatal(err)
	}
	const want = "session=configured; lang=de; sid=c"
	if !slices.Equal(sent, []string{want, want}) {
		t.Errorf("sent cookies %q, want twice %q", sent, want)
	}
}

func TestConfiguredScopes(t *testing.T) {
	t.Parallel()
	a := &authority{lifetime: 60}
	if _, err := callOf(t, clientSource(t, a, Credential{Scopes: []string{"other"}}), "op", `{}`); err != nil {
		t.Fatal(err)
	}
	if _, requested := a.scopes.Load("other"); !requested {
		t.Error("the configured scopes were not requested")
	}
}

func TestTokenErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		failing http.HandlerFunc
		code    fault.Code
		status  int
	}{
		{"refused, with what was sent", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(401)
			_, secret, _ := r.BasicAuth()
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"bad secret %s"}`, secret)
		}, fault.FunctionFailed, 401},
		{"an error that repeats the secret", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"client-secret-1"}`)
		}, fault.FunctionFailed, 400},
		{"not JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>client-secret-1") }, fault.Unavailable, 0},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, fault.FunctionFailed, 500},
	} {
		a := &authority{failing: test.failing}
		_, err := callOf(t, clientSource(t, a, Credential{}), "op", `{}`)
		f, _ := fault.As(err)
		if f == nil || f.Code != test.code || f.Status != test.status || f.Outcome != fault.NotSent {
			t.Errorf("%s: %v, want %s, status %d, not_sent", test.name, err, test.code, test.status)
			continue
		}
		if shown := f.Message + string(f.Body); strings.Contains(shown, "client-secret-1") || !strings.Contains(shown, "auth.example.com") {
			t.Errorf("%s: got %s, want the host, and not the secret", test.name, shown)
		}
	}
}

// TestClosingEndsTokens: a call that waits for a token ends when the source is closed.
func TestClosingEndsTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocked := doerFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := sourceOf(t, Options{Client: blocked, BaseURL: "https://api.example.com",
			Auth: map[string]Credential{"oauth": {ClientID: "a", ClientSecret: "b", TokenURL: "https://auth.example.com/token"}}},
			&document{operations: []operation{securedOperation("POST", requirement{"oauth": nil})}, schemes: allSchemes})
		time.AfterFunc(time.Second, func() { _ = s.Close() })
		if _, err := callOf(t, s, "op", `{}`); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("got %v, want unavailable", err)
		}
	})
}

type doerFunc func(*http.Request) (*http.Response, error)

func (f doerFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }
