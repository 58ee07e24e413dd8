package login

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// newPersonal returns the login of a caller with the options of the fixture, as a process of its own has it.
func (s *loginFixture) newPersonal(t *testing.T) *Personal {
	t.Helper()
	p, err := NewPersonal(s.o)
	if err != nil {
		t.Fatal(err)
	}
	p.Refresh(t.Context(), false)
	return p
}

// TestPersonal: a login keeps its ID whatever tokens it gets, which are renewed once for all processes, and another login is another one.
func TestPersonal(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	processes := []*Personal{s.newPersonal(t), s.newPersonal(t)}
	if id := processes[0].ID(); id != "" {
		t.Errorf("without a login the ID is %q", id)
	}
	s.login(t)
	id := ""
	for _, p := range processes {
		if !p.Refresh(t.Context(), true) || p.ID() == "" || id != "" && p.ID() != id {
			t.Fatalf("after the login the ID is %q, want that of the other process, %q", p.ID(), id)
		}
		if id = p.ID(); p.Refresh(t.Context(), true) {
			t.Error("the login has changed by itself")
		}
	}
	old := s.editLogin(t, expire).Access
	for _, p := range processes {
		p.Refresh(t.Context(), true)
	}
	var waiting sync.WaitGroup
	for i := range 20 {
		waiting.Go(func() {
			if token, err := processes[i%2].Token(t.Context(), id, ""); err != nil || token == old {
				t.Errorf("got the token %q, %v, want a new one", token, err)
			}
		})
	}
	waiting.Wait()
	if s.auth.renewals != 1 {
		t.Errorf("%d renewals, want 1", s.auth.renewals)
	}
	now := s.editLogin(t, backdate).Access
	token, err := processes[0].Token(t.Context(), id, now)
	if err != nil || token == now || s.auth.renewals != 2 {
		t.Errorf("after a refusal: got %q, %v after %d renewals, want another token", token, err, s.auth.renewals)
	}
	if processes[0].ID() != id {
		t.Error("a renewal changes the ID")
	}
	s.login(t)
	if !processes[0].Refresh(t.Context(), true) || processes[0].ID() == id {
		t.Error("another login has the same ID")
	}
	if token, err := processes[0].Token(t.Context(), id, ""); fault.CodeOf(err) != fault.Denied || token != "" {
		t.Errorf("for the login before: got %q, %v, want denied", token, err)
	}
}

// TestPersonalEnds: a login that cannot be renewed counts as none, until there is another one.
func TestPersonalEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*loginFixture){
		"it is not renewed any more": func(s *loginFixture) { s.auth.refresh = nil; s.editLogin(t, expire) },
		"it has no refresh token":    func(s *loginFixture) { s.editLogin(t, func(r *record) { expire(r); r.Refresh = "" }) },
	} {
		s := loggedIn(t)
		s.o.Remedy = "ask the keeper"
		p := s.newPersonal(t)
		id := p.ID()
		end(s)
		p.Refresh(t.Context(), true)
		if _, err := p.Token(t.Context(), id, ""); fault.CodeOf(err) != fault.Denied || !strings.Contains(err.Error(), "ask the keeper") {
			t.Errorf("%s: %v, want denied with the remedy", name, err)
		}
		if p.Refresh(t.Context(), false); p.ID() != "" {
			t.Errorf("%s: it still counts", name)
		}
	}
}

// TestPersonalIsReadAgain: what another process has changed is known a second later.
func TestPersonalIsReadAgain(t *testing.T) {
	t.Parallel()
	s := loggedIn(t)
	synctest.Test(t, func(t *testing.T) {
		p := s.newPersonal(t)
		if err := s.o.Store.Delete(t.Context(), p.h.key()); err != nil {
			t.Fatal(err)
		}
		if p.Refresh(t.Context(), false); p.ID() == "" {
			t.Error("it is read at once")
		}
		time.Sleep(recheck)
		if !p.Refresh(t.Context(), false) || p.ID() != "" {
			t.Error("it is not read again")
		}
	})
}

// TestFlow: a login by a page of the program ends with its answer, and no other, and needs no MCP server.
func TestFlow(t *testing.T) {
	t.Parallel()
	s := newLoginFixture(t)
	s.auth.clients["me"] = testClient{}
	s.o.ServerURL, s.o.AuthServer, s.o.Direct, s.o.ClientID, s.o.Scopes = s.auth.URL, s.auth.URL, true, "me", []string{"tools"}
	const page = "https://tools.example.com/callback"
	f, err := Begin(t.Context(), s.o, page)
	if err != nil {
		t.Fatal(err)
	}
	asked := mustParse(t, f.URL()).Query()
	if asked.Get("redirect_uri") != page || asked.Has("resource") || asked.Get("state") != f.State() || "http://"+f.Host() != s.auth.URL {
		t.Errorf("the person is sent to %s at %s", f.URL(), f.Host())
	}
	asked.Set("resource", "any") // this server wants one
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := stay.Get(s.auth.URL + "/authorize?" + asked.Encode())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	query := mustParse(t, answer.Header.Get("Location")).Query()
	wrong := url.Values{"state": {"another"}, "code": query["code"]}
	if err := f.Finish(t.Context(), wrong); fault.CodeOf(err) != fault.Denied {
		t.Errorf("another state: %v, want denied", err)
	}
	s.checkLoggedIn(t, false)
	s.auth.codes[query.Get("code")].Del("resource")
	if err := f.Finish(t.Context(), query); err != nil {
		t.Fatal(err)
	}
	s.checkLoggedIn(t, true)
	if applicationType(page) != "web" || applicationType("http://127.0.0.1/callback") != "native" {
		t.Error("the kinds of clients are mixed up")
	}
}
