package login

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func token(t *testing.T, o *Options, h *handler) (string, *handler, error) {
	t.Helper()
	if h == nil {
		h = newHandler(t, o)
	}
	tokens, err := h.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokens.Token()
	if err != nil || got == nil {
		return "", h, err
	}
	return got.AccessToken, h, nil
}

// Many concurrent renewals, in several handlers that share a store, send one request to the authorization server, and all get its answer.
// The server ends the whole login if a refresh token is used twice.
func TestRenewOnce(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	for round := 1; round <= 3; round++ {
		s.editLogin(t, expire)
		var handlers []*handler
		for range 4 {
			handlers = append(handlers, newHandler(t, s.o))
		}
		var wait sync.WaitGroup
		got := make([]string, 32)
		for i := range got {
			wait.Go(func() {
				var err error
				if got[i], _, err = token(t, s.o, handlers[i%len(handlers)]); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for _, one := range got {
			if one == "" || one != got[0] {
				t.Fatalf("round %d: the callers got different tokens", round)
			}
		}
		if n := s.auth.renewalCount(); n != round {
			t.Fatalf("%d renewals after %d rounds, want one a round", n, round)
		}
	}
}

// Concurrent renewals in several processes, too, send one request, and all get its answer.
func TestRenewOnceAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	file := filepath.Join(t.TempDir(), "logins", "logins.json")
	s.o.Store = newFileStore(file)
	s.login(t)
	s.editLogin(t, expire)
	var wait sync.WaitGroup
	got := make([]string, 4)
	for i := range got {
		wait.Go(func() {
			c := exec.CommandContext(t.Context(), os.Args[0])
			c.Env = append(os.Environ(), "ONECALL_OAUTH_CHILD=renew", "ONECALL_OAUTH_URL="+s.o.ServerURL, "ONECALL_OAUTH_FILE="+file)
			out, err := c.Output()
			if err != nil {
				t.Errorf("renewal in a process: %v", err)
			}
			got[i] = string(out)
		})
	}
	wait.Wait()
	for _, one := range got {
		if one == "" || one != got[0] {
			t.Errorf("the processes got different tokens: %q", got)
		}
	}
	if n := s.auth.renewalCount(); n != 1 {
		t.Errorf("%d renewals, want 1", n)
	}
	if _, _, err := token(t, s.o, nil); err != nil {
		t.Error(err)
	}
}

// How a renewal fails, and the messages.
func TestRenewFails(t *testing.T) {
	t.Parallel()
	answers := func(do func(http.ResponseWriter)) func(*loginFixture) {
		return func(s *loginFixture) {
			s.auth.token = func(w http.ResponseWriter, _ *http.Request) bool { do(w); return true }
		}
	}
	for name, test := range map[string]struct {
		spoil   func(*loginFixture)
		code    fault.Code
		message string
	}{
		"dead":        {answers(func(w http.ResponseWriter) { oauthError(w, "invalid_grant") }), fault.Denied, "onecall auth login hub"},
		"client":      {answers(func(w http.ResponseWriter) { oauthError(w, "invalid_client") }), fault.Denied, "onecall auth login hub"},
		"scope":       {answers(func(w http.ResponseWriter) { oauthError(w, "invalid_scope") }), fault.Denied, "invalid_scope"},
		"down":        {answers(func(w http.ResponseWriter) { w.WriteHeader(502) }), fault.Unavailable, "502"},
		"too often":   {answers(func(w http.ResponseWriter) { w.WriteHeader(429) }), fault.Unavailable, "429"},
		"unreachable": {func(s *loginFixture) { s.auth.Close() }, fault.Unavailable, "no token from"},
		"other": {answers(func(w http.ResponseWriter) {
			reply(w, 200, map[string]string{"access_token": "a", "token_type": "mac"})
		}), fault.Denied, "bearer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loggedIn(t)
			s.editLogin(t, expire)
			secrets := s.auth.secrets()
			test.spoil(s)
			_, _, err := token(t, s.o, nil)
			wantError(t, s.auth, err, test.code, test.message)
			if len(secrets) < 2 {
				t.Error("the test has fewer than two secrets to look for")
			}
			s.checkLoggedIn(t, true)
		})
	}
}

// While the authorization server is unavailable, a token is used until it expires.
func TestRenewEarly(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	r := s.editLogin(t, func(r *record) {
		r.Obtained, r.Expires = time.Now().Add(-time.Hour), time.Now().Add(20*time.Second)
	})
	s.auth.token = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
	got, h, err := token(t, s.o, nil)
	if err != nil || got != r.Access {
		t.Errorf("token while the server is unavailable: %v, want the old one", err)
	}
	s.auth.token = nil
	if got, _, err = token(t, s.o, h); err != nil || got == r.Access {
		t.Errorf("the token was not renewed when the server answered again: %v", err)
	}
}

// Without a refresh token the end of the token is the end of the login.
func TestNoRefreshToken(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	s.auth.noRefresh = true
	s.login(t)
	if _, _, err := token(t, s.o, nil); err != nil {
		t.Fatal(err)
	}
	s.editLogin(t, expire)
	_, _, err := token(t, s.o, nil)
	wantError(t, s.auth, err, fault.Denied, "no means to renew", "onecall auth login hub")
	if state, _ := Status(t.Context(), s.o); state.LoggedIn || state.Renews {
		t.Errorf("got status %+v, want neither logged in nor renewing", state)
	}
}

// A refresh token that does not rotate is kept.
func TestStoredRefreshToken(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	s.auth.keepRefresh = true
	s.login(t)
	for range 3 {
		s.editLogin(t, expire)
		if _, _, err := token(t, s.o, nil); err != nil {
			t.Fatal(err)
		}
	}
	if s.auth.renewalCount() != 3 {
		t.Errorf("%d renewals, want 3", s.auth.renewalCount())
	}
}

// If a server refuses a token that was just issued, no more tokens are requested.
func TestNewTokenRefused(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	s.auth.forgetAccess()
	for range 3 {
		_, _, err := s.connect(t)
		wantError(t, s.auth, err, fault.Denied, "does not accept the token")
	}
	if n := s.auth.renewalCount(); n != 0 {
		t.Errorf("%d renewals, want 0", n)
	}
}

// A renewed login that cannot be stored is not lost: it is used, renewed again, and stored when the store works again.
func TestUnsavedRenewal(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	b := &brokenStore{Store: s.o.Store}
	s.o.Store = b
	s.login(t)
	s.editLogin(t, expire)
	b.setBroken(false, true)
	_, h, err := token(t, s.o, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	expire(h.current) // h.current is also the login that waits to be stored
	h.mu.Unlock()
	got, _, err := token(t, s.o, h)
	if err != nil || s.auth.renewalCount() != 2 {
		t.Fatalf("token with an unsaved login: %v, %d renewals, want 2", err, s.auth.renewalCount())
	}
	b.setBroken(false, false)
	h.mu.Lock()
	h.saveAgain = time.Now().Add(-time.Second)
	h.mu.Unlock()
	if again, _, err := token(t, s.o, h); err != nil || again != got {
		t.Fatalf("the unsaved token is not used again: got %q, %v, want %q", again, err, got)
	}
	<-h.flight.DoChan("save", func() (any, error) { h.saveLate(); return nil, nil })
	if stored, _, err := token(t, s.o, nil); err != nil || stored != got {
		t.Fatalf("the stored login: got %q, %v, want %q", stored, err, got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.saveAgain.IsZero() {
		t.Error("saveAgain is set after the login was stored")
	}
}

// After a logout, a login that waits to be stored is not stored any more.
func TestLogoutForgetsUnsaved(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	b := &brokenStore{Store: s.o.Store}
	s.o.Store = b
	s.login(t)
	s.editLogin(t, expire)
	b.setBroken(false, true)
	_, h, err := token(t, s.o, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.setBroken(false, false)
	if err := Logout(t.Context(), s.o); err != nil {
		t.Fatal(err)
	}
	h.saveLate()
	s.checkLoggedIn(t, false)
}

// Another machine that shares the folder may renew first, because its locks do not work here.
func TestRenewedElsewhere(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	s.editLogin(t, expire)
	s.auth.token = func(w http.ResponseWriter, _ *http.Request) bool {
		s.editLogin(t, func(r *record) { r.Access, r.Obtained, r.Expires = "winner", time.Now(), time.Now().Add(time.Hour) })
		oauthError(w, "invalid_grant")
		return true
	}
	if got, _, err := token(t, s.o, nil); err != nil || got != "winner" {
		t.Errorf("token %q, %v, want that of the other machine", got, err)
	}
}

// A renewal continues when its caller leaves.
func TestRenewOutlivesCaller(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	r := s.editLogin(t, expire)
	begun, proceed := make(chan struct{}), make(chan struct{})
	s.auth.token = func(http.ResponseWriter, *http.Request) bool { close(begun); <-proceed; return false }
	h := newHandler(t, s.o)
	ctx, cancel := context.WithCancel(t.Context())
	tokens, _ := h.TokenSource(ctx)
	go func() { <-begun; cancel() }()
	_, err := tokens.Token()
	wantError(t, s.auth, err, fault.Cancelled)
	close(proceed)
	<-h.flight.DoChan("renew "+r.Access, func() (any, error) { return h.renewLocked(t.Context(), r.Access) })
	if n := s.auth.renewalCount(); n != 1 {
		t.Errorf("%d renewals, want 1", n)
	}
	if stored, _, err := token(t, s.o, nil); err != nil || stored == r.Access {
		t.Errorf("the new token was not stored: %v", err)
	}
}

func TestLogoutUnconfirmed(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	s.auth.revokeStatus = 503
	wantError(t, s.auth, Logout(t.Context(), s.o), fault.Unavailable, "deleted here", "did not confirm")
	s.checkLoggedIn(t, false)
}
