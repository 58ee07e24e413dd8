package login

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

func TestMain(m *testing.M) {
	if what := os.Getenv("ONECALL_OAUTH_CHILD"); what != "" {
		os.Exit(child(what))
	}
	polltest.MoreParallel()
	os.Exit(m.Run())
}

// wantError fails unless err has the code and its message all the words, and none of the secrets.
func wantError(t *testing.T, a *authServer, err error, code fault.Code, segments ...string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("error %v, want the code %s", err, code)
	}
	if err == nil {
		return
	}
	for _, segment := range segments {
		if !strings.Contains(err.Error(), segment) {
			t.Errorf("error %q lacks %q", err, segment)
		}
	}
	if a != nil {
		for _, secret := range a.secrets() {
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
				t.Errorf("error %q shows the secret %q", err, secret)
			}
		}
	}
}

func TestEndToEnd(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	_, _, err := s.connect(t)
	wantError(t, s.auth, err, fault.Denied, "onecall auth login hub")
	s.checkLoggedIn(t, false)

	s.login(t)
	session, h := s.session(t)
	if err := greet(t, session); err != nil {
		t.Fatal(err)
	}
	state, err := Status(t.Context(), s.o)
	if err != nil || !state.LoggedIn || !state.Renews || state.Store != "file" || state.Issuer != s.auth.URL ||
		strings.Join(state.Scopes, " ") != "offline_access tools" || time.Until(state.Expires) < 50*time.Minute {
		t.Fatalf("Status after the login: got %+v, %v, want a login for an hour that renews itself", state, err)
	}

	h.setCurrent(s.editLogin(t, expire)) // the token has expired
	if err := greet(t, session); err != nil || s.auth.renewalCount() != 1 {
		t.Fatalf("call with an expired token: %v, %d renewals, want 1", err, s.auth.renewalCount())
	}
	h.setCurrent(s.editLogin(t, backdate)) // the server forgets the token before it expires
	s.auth.forgetAccess()
	if err := greet(t, session); err != nil || s.auth.renewalCount() != 2 {
		t.Fatalf("call with a token that the server forgot: %v, %d renewals, want 2", err, s.auth.renewalCount())
	}

	if err := Logout(t.Context(), s.o); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.auth.revoked, " "); got != "refresh_token access_token" {
		t.Errorf("revoked %q, want both tokens", got)
	}
	wantError(t, s.auth, greet(t, session), fault.Denied, "onecall auth login hub")
	s.checkLoggedIn(t, false)
	if err := Logout(t.Context(), s.o); err != nil {
		t.Errorf("second logout: %v", err)
	}

	s.login(t) // as another process would: the open session uses the new token
	if err := greet(t, session); err != nil {
		t.Fatal(err)
	}
}

// With a broken store, a server that asks for no login still works with a handler. For one that asks, the error names the store.
func TestBrokenStore(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	s.o.Store = &brokenStore{Store: s.o.Store, get: true, set: true}
	wantError(t, s.auth, Login(t.Context(), s.o, &browser{}), fault.Unavailable, "broken")
	_, _, err := s.connect(t)
	wantError(t, s.auth, err, fault.Unavailable, "broken")
	s.tools.around = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("a token was sent without a usable store")
			}
			w.WriteHeader(http.StatusTeapot)
		})
	}
	if _, _, err = s.connect(t); err == nil || !strings.Contains(err.Error(), "teapot") {
		t.Errorf("connect: %v, want the server's status", err)
	}
}

// A login belongs to one server, one client and one authorization server.
func TestBoundLogin(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"url":      func(o *Options) { o.ServerURL += "/other" },
		"query":    func(o *Options) { o.ServerURL += "?a=b" },
		"source":   func(o *Options) { o.Source = "other" },
		"client":   func(o *Options) { o.ClientID = "other" },
		"issuer":   func(o *Options) { o.AuthServer = "http://127.0.0.1:1" },
		"same url": func(o *Options) { o.ServerURL = strings.Replace(o.ServerURL, "http://", "HTTP://", 1) + "#there" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loggedIn(t)
			change(s.o)
			state, err := Status(t.Context(), s.o)
			if err != nil || state.LoggedIn != (name == "same url") {
				t.Errorf("Status: got %+v, %v, want logged in: %t", state, err, name == "same url")
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := Options{Source: "hub", ServerURL: "https://example.com/mcp", Store: newFileStore("unused"), HTTPClient: &http.Client{}}
	for name, test := range map[string]struct {
		change func(*Options)
		code   fault.Code
	}{
		"good":        {func(*Options) {}, ""},
		"loopback":    {func(o *Options) { o.ServerURL = "http://[::1]:8080/mcp" }, ""},
		"no source":   {func(o *Options) { o.Source = "" }, fault.BadRequest},
		"no store":    {func(o *Options) { o.Store = nil }, fault.BadRequest},
		"no client":   {func(o *Options) { o.HTTPClient = nil }, fault.BadRequest},
		"no url":      {func(o *Options) { o.ServerURL = "" }, fault.Denied},
		"bad url":     {func(o *Options) { o.ServerURL = "https://%zz" }, fault.BadRequest},
		"http":        {func(o *Options) { o.ServerURL = "http://example.com/mcp" }, fault.Denied},
		"user":        {func(o *Options) { o.ServerURL = "https://me:secret@example.com/mcp" }, fault.Denied},
		"file":        {func(o *Options) { o.ServerURL = "file:///etc/passwd" }, fault.Denied},
		"port":        {func(o *Options) { o.RedirectPort = 65536 }, fault.BadRequest},
		"auth server": {func(o *Options) { o.AuthServer = "http://example.com" }, fault.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			test.change(&o)
			_, err := Handler(&o)
			wantError(t, nil, err, test.code)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q shows the URL's password", err)
			}
		})
	}
	_, err := Handler(nil)
	wantError(t, nil, err, fault.BadRequest)
}

// brokenStore fails on demand.
type brokenStore struct {
	Store
	mu       sync.Mutex
	get, set bool
}

func (b *brokenStore) Get(ctx context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.get {
		return nil, fault.New(fault.Unavailable, "broken")
	}
	return b.Store.Get(ctx, key)
}

func (b *brokenStore) Set(ctx context.Context, key string, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set {
		return fault.New(fault.Unavailable, "broken")
	}
	return b.Store.Set(ctx, key, value)
}

func (b *brokenStore) setBroken(get, set bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.get, b.set = get, set
}
