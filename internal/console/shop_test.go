package console_test

import (
	"context"
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// shop is a console over functions that write. Those of shop.put need approval, and shop.remove undoes them.
type shop struct {
	*site
	mu    sync.Mutex
	calls []string
	work  *transport.Tracker
	fails map[string]error // by the call, such as shop.put {"k":1}: how it fails; missing: it succeeds
}

type functionList []steps.Function

func (l functionList) Functions() []steps.Function { return l }
func (functionList) Close() error                  { return nil }

// newShop returns a shop with these viewers. set changes its backend; nil: nothing.
func newShop(t *testing.T, viewers map[string]*console.Viewer, set func(*console.Backend)) *shop {
	t.Helper()
	s := &shop{site: &site{}, fails: map[string]error{}, work: transport.NewTracker()}
	backend := &console.Backend{}
	if set != nil {
		set(backend)
	}
	var err error
	if s.journal = backend.Journal; s.journal == nil {
		s.journal, err = journal.New(&journal.Memory{}, &journal.Options{Key: make([]byte, journal.MinKeyBytes), Values: backend.Values})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.journal.Close() })
	}
	var functions functionList
	for _, spec := range []steps.Spec{
		{Name: "shop.get", EffectDeclared: true, Effect: steps.Read},
		{Name: "shop.add", EffectDeclared: true, Undo: &steps.Undo{Function: "shop.remove", Args: []byte(`{"k":"$result.k"}`)}},
		{Name: "shop.send", EffectDeclared: true},
		{Name: "shop.put", EffectDeclared: true, Approve: steps.ApproveWrite, Undo: &steps.Undo{Function: "shop.remove", Args: []byte(`{"k":"$result.k"}`)}},
		{Name: "shop.remove", EffectDeclared: true, Effect: steps.Destroy, Idempotent: true},
	} {
		functions = append(functions, steps.Function{Spec: spec, Call: s.call(spec.Name)})
	}
	catalog, err := steps.NewCatalog(&steps.CatalogOptions{Credentials: tenants{}})
	if err != nil {
		t.Fatal(err)
	}
	s.catalog = catalog
	if err := catalog.Add("shop", functions); err != nil {
		t.Fatal(err)
	}
	if s.engine, err = chain.New(&chain.Options{Functions: catalog, Journal: s.journal, MaxCalls: 20_000}); err != nil {
		t.Fatal(err)
	}
	calls := &console.Calls{Catalog: catalog, Run: s.engine.Run}
	backend.Journal, backend.Open = s.journal, func(context.Context) (*console.Calls, error) { return calls, nil }
	s.Server = httptest.NewServer(console.New(&console.Options{
		Backend: func() *console.Backend { return backend },
		Begin:   s.work.Begin,
		Identify: func(_ context.Context, credential string) (*console.Viewer, error) {
			if v := viewers[credential]; v != nil {
				return v, nil
			}
			return nil, fault.New(fault.Denied, "there is no such token")
		},
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) call(function string) steps.Call {
	return func(_ context.Context, args []byte) ([]byte, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := function + " " + string(args)
		s.calls = append(s.calls, name)
		if err := s.fails[name]; err != nil {
			return nil, err
		}
		return []byte(`{"k":` + gjson.GetBytes(args, "k").Raw + `}`), nil
	}
}

// wantCalls fails the test unless these calls were made since the last wantCalls, in any order.
func (s *shop) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[string]int{}
	for _, name := range want {
		left[name]++
	}
	for _, name := range s.calls {
		left[name]--
	}
	for name, n := range left {
		if n != 0 {
			t.Errorf("calls were made %q, want %q: %s", s.calls, want, name)
			break
		}
	}
	s.calls = nil
}

// run runs a chain for a caller, and returns the id of the run and the answer.
func (s *shop) run(t *testing.T, caller, request string) (id string, a *chain.Answer) {
	t.Helper()
	a = s.engine.Run(t.Context(), []byte(request), &chain.Caller{ID: caller})
	rows, err := s.journal.List(t.Context(), &journal.Filter{Callers: []string{caller}, Limit: 1})
	if err != nil || len(rows) == 0 {
		t.Fatalf("%v: no run was recorded: %s", err, a.JSON)
	}
	return rows[0].ID, a
}

func (s *shop) status(t *testing.T, id string) journal.Status {
	t.Helper()
	past, err := s.journal.Read(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return past.Row.Status
}

var inputs = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)"`)

// send sends the first form of a page, whose hidden fields it takes over, to a path.
func (b *browser) send(page, path string, fields url.Values) (status int, next string) {
	b.t.Helper()
	form := url.Values{}
	for _, field := range inputs.FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	for name, values := range fields {
		form[name] = values
	}
	return b.post(path, form)
}

// wantText fails the test unless a page has these texts; a text that begins with "!" must not be there.
func wantText(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		unwanted, without := strings.CutPrefix(text, "!")
		if without && strings.Contains(page, unwanted) {
			t.Errorf("the page has %q:\n%s", unwanted, page)
		} else if !without && !strings.Contains(page, text) {
			t.Errorf("the page has no %q:\n%s", text, page)
		}
	}
}

func actor(id string) *console.Viewer {
	v := person(id)
	v.Acts = true
	return v
}
