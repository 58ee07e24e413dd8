package console_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// site is a console whose viewers have their names as credentials.
type site struct {
	*httptest.Server
	journal *journal.Journal
	catalog *steps.Catalog
	engine  *chain.Engine
	backend *console.Backend
	calls   *console.Calls
}

func newSite(t *testing.T, viewers map[string]*console.Viewer) *site {
	t.Helper()
	s, handler := newHandler(t, viewers)
	s.Server = httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// newHandler returns a console without a server.
func newHandler(t *testing.T, viewers map[string]*console.Viewer) (*site, http.Handler) {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	catalog, err := steps.NewCatalog(&steps.CatalogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := budget.NewResults(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = results.Close() })
	engine, err := chain.New(&chain.Options{Functions: catalog, Journal: j, Results: results})
	if err != nil {
		t.Fatal(err)
	}
	calls := &console.Calls{Catalog: catalog, Run: engine.Run,
		BrokenChains: func() []*fault.Error {
			return []*fault.Error{fault.New(fault.BadRequest, "old.chain.json is broken: <b>")}
		}}
	backend := &console.Backend{Journal: j, Open: func(context.Context) (*console.Calls, error) { return calls, nil }}
	return &site{journal: j, engine: engine, catalog: catalog, backend: backend, calls: calls}, console.New(&console.Options{
		Backend: func() *console.Backend { return backend },
		Begin:   transport.NewTracker().Begin,
		Identify: func(_ context.Context, credential string) (*console.Viewer, error) {
			if v := viewers[credential]; v != nil {
				return v, nil
			}
			return nil, fault.New(fault.Denied, "there is no such token")
		},
	})
}

// browser is a browser of a viewer who has logged in.
type browser struct {
	*http.Client
	t    *testing.T
	site *site
}

func (s *site) browser(t *testing.T, token string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{&http.Client{Jar: jar, Timeout: polltest.TooLong}, t, s} // a stream that should be refused does not end
	if status, page := b.post("login", url.Values{"token": {token}}); status != http.StatusOK {
		t.Fatalf("logging in as %s: status %d: %s", token, status, page)
	}
	return b
}

func (b *browser) get(path string) (status int, page string) {
	return b.read(b.Get(b.site.URL + console.Path + path))
}

func (b *browser) post(path string, form url.Values) (status int, page string) {
	return b.read(b.PostForm(b.site.URL+console.Path+path, form))
}

func (b *browser) read(r *http.Response, err error) (int, string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func person(id string) *console.Viewer {
	return &console.Viewer{Caller: steps.Caller{ID: id, Rights: steps.Rights{Tier: steps.TierAdmin}}}
}

// TestTwoViewers: nobody sees another caller's runs, in a list or by their ids, except those who see all.
func TestTwoViewers(t *testing.T) {
	t.Parallel()
	all := person("all")
	all.All = true
	s := newSite(t, map[string]*console.Viewer{"ann": person("token:ann"), "bob": person("token:bob"), "all": all})
	for name, id := range map[string]string{"anns": "token:ann", "bobs": "token:bob"} {
		a := s.engine.Run(t.Context(), []byte(`{"name":"`+name+`","steps":[{"expr":"6*7"}]}`), &chain.Caller{ID: id})
		if !a.OK {
			t.Fatal(string(a.JSON))
		}
	}
	rows, err := s.journal.List(t.Context(), &journal.Filter{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("got %d runs and error %v, want 2", len(rows), err)
	}
	for viewer, sees := range map[string][]string{"ann": {"anns"}, "bob": {"bobs"}, "all": {"anns", "bobs"}} {
		b := s.browser(t, viewer)
		_, list := b.get("")
		for i := range rows {
			want := false
			for _, name := range sees {
				want = want || rows[i].Chain == name
			}
			if got := strings.Contains(list, rows[i].ID); got != want {
				t.Errorf("the list of %s has the run %s: %t, want %t", viewer, rows[i].Chain, got, want)
			}
			status, page := b.get("runs/" + rows[i].ID)
			if got := status == http.StatusOK; got != want || strings.Contains(page, rows[i].Chain) != want {
				t.Errorf("the page of %s's run for %s: status %d: %s", rows[i].Chain, viewer, status, page)
			}
		}
	}
}

// TestLogin: without a token that is accepted there is only the login.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": person("token:ann")})
	stranger := &browser{&http.Client{}, t, s}
	for _, path := range []string{"", "runs/run_a", "?status=failed"} {
		if status, page := stranger.get(path); status != http.StatusOK || !strings.Contains(page, "Your token") {
			t.Errorf("%q without a login: status %d, want the login: %s", path, status, page)
		}
	}
	if status, page := stranger.post("login", url.Values{"token": {"eve"}}); status != fault.Denied.HTTP() || !strings.Contains(page, "no such token") {
		t.Errorf("a login with a token that is not accepted: status %d: %s", status, page)
	}
	for to, want := range map[string]string{"runs/run_a/approve": "runs/run_a/approve", "//evil.example.org": "", "../mcp": "", "": ""} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		led := &browser{&http.Client{Jar: jar}, t, s}
		if r, err := led.PostForm(s.URL+console.Path+"login?to="+url.QueryEscape(to), url.Values{"token": {"ann"}}); err != nil {
			t.Error(err)
		} else if r.Body.Close(); r.Request.URL.Path != console.Path+want {
			t.Errorf("a login that is to lead to %q leads to %s, want %q", to, r.Request.URL, want)
		}
	}
	if _, page := stranger.get("runs/run_a/approve"); !strings.Contains(page, `action="/console/login?to=runs%2Frun_a%2Fapprove"`) {
		t.Errorf("the login does not lead to the page that was asked for: %s", page)
	}
	ann := s.browser(t, "ann")
	if _, page := ann.post("logout", nil); !strings.Contains(page, "Your token") {
		t.Errorf("the page after the end of the login: %s", page)
	}
	if _, page := ann.get(""); !strings.Contains(page, "Your token") {
		t.Errorf("a page after the end of the login: %s", page)
	}
}
