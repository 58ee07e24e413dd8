package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/rights"
	"github.com/onecall-mcp/onecall/steps"
)

// commons is what replicas share, in memory. The driver for a real server is tested in its own package, and with two
// processes of the command.
type commons struct {
	mu    sync.Mutex
	away  atomic.Bool
	full  atomic.Bool // nothing can be written
	owner map[string]string
	kept  map[string]map[string]int64
	taken map[string]int
}

func newCommons() *commons {
	return &commons{owner: map[string]string{}, kept: map[string]map[string]int64{}, taken: map[string]int{}}
}

func (c *commons) gone() error {
	if c.away.Load() {
		return fault.New(fault.Unavailable, "the session store cannot be reached")
	}
	return nil
}

func (c *commons) Begin(_ context.Context, owner string, most, _ int) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, other := range c.owner {
		if other == owner {
			n++
		}
	}
	if most > 0 && n >= most {
		return "", fault.New(fault.Busy, "%d sessions", n)
	}
	id := fmt.Sprintf("session-%d-%d", len(c.owner), time.Now().UnixNano())
	c.owner[id], c.kept[id] = owner, map[string]int64{}
	return id, c.gone()
}

func (c *commons) Session(_ context.Context, id, owner string) (steps.SessionState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner[id] != owner {
		return nil, fault.New(fault.TokenExpired, "there is no such session")
	}
	return &common{c, id}, c.gone()
}

func (c *commons) End(_ context.Context, id, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owner, id)
	return c.gone()
}

func (c *commons) Take(_ context.Context, owner string, _ float64, burst int) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[owner]++; c.taken[owner] > burst {
		return 3 * time.Second, c.gone()
	}
	return 0, c.gone()
}

// rested has all callers' requests forgotten.
func (c *commons) rested() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.taken)
}

// common is one session's.
type common struct {
	of *commons
	id string
}

func (c *common) Read(_ context.Context, names ...string) ([]int64, error) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	var list []int64
	for _, name := range names {
		list = append(list, c.of.kept[c.id][name])
	}
	return list, c.of.gone()
}

func (c *common) Add(_ context.Context, name string, n int64) (int64, error) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.full.Load() {
		return 0, fault.New(fault.Unavailable, "the session store has no memory left")
	}
	c.of.kept[c.id][name] += n
	return c.of.kept[c.id][name], c.of.gone()
}

func (c *common) Raise(_ context.Context, values map[string]int64) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for name, n := range values {
		c.of.kept[c.id][name] = max(n, c.of.kept[c.id][name])
	}
	return c.of.gone()
}

// inTurn puts a proxy before replicas, which sends each request to the next of them.
func inTurn(t *testing.T, urls ...string) string {
	t.Helper()
	var turn atomic.Int64
	to := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(strings.TrimSuffix(urls[int(turn.Add(1))%len(urls)], Path))
		if err != nil {
			t.Error(err)
			return
		}
		r.SetURL(to)
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the request's body may be closed before the proxy has seen its end, which then cuts the answer.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL + Path
}

// TestReplicated: a client is served by several processes in turn as by one.
func TestReplicated(t *testing.T) {
	t.Parallel()
	shared := newCommons()
	options := func(o *Options) {
		o.Shared, o.SessionTokens, o.Limits = shared, 5000, Limits{Sessions: 2, PerSecond: 1000, Burst: 30}
	}
	one, two := serve(t, options), serve(t, options)
	door := &Door{Callers: staff}
	at := inTurn(t, one.behind(t, door), two.behind(t, door))
	client := as(t, at, "ann", "2025-11-25")
	spent := int64(0)
	for range 6 {
		for range 2 {
			if text, failed := ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`); failed {
				t.Fatal(text)
			}
		}
		info, _ := ask(t, client, "info", `{}`)
		now := gjson.Get(info, "session.tokens").Int()
		if now <= spent {
			t.Fatalf("%d tokens after %d: %s", now, spent, info)
		}
		spent = now
	}
	if one.shop.calls.Load() == 0 || two.shop.calls.Load() == 0 || one.shop.calls.Load()+two.shop.calls.Load() != 12 {
		t.Errorf("%d and %d calls", one.shop.calls.Load(), two.shop.calls.Load())
	}
	id := client.ID()
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	foreign, body1 := sendTo(t, "POST", at, list, header{"Authorization": "Bearer eve", "Mcp-Session-Id": id})
	unknown, body2 := sendTo(t, "POST", at, list, header{"Authorization": "Bearer eve", "Mcp-Session-Id": "made up"})
	if foreign.StatusCode != 404 || unknown.StatusCode != 404 || body1 != body2 {
		t.Errorf("foreign %d %s, unknown %d %s", foreign.StatusCode, body1, unknown.StatusCode, body2)
	}
	if r, body := sendTo(t, "POST", at, list, header{"Authorization": "Bearer ann"}); r.StatusCode != 400 {
		t.Errorf("without a session: %d %s", r.StatusCode, body)
	}
	shared.away.Store(true)
	if r, body := sendTo(t, "POST", at, list, header{"Authorization": "Bearer ann", "Mcp-Session-Id": id}); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("while it is away: %d %s", r.StatusCode, body)
	}
	if text, failed := ask(t, as(t, at, "eve", "2026-07-28"), "info", `{}`); failed {
		t.Errorf("a client without a session, while it is away: %s", text)
	}
	shared.away.Store(false)
	refused := 0
	for range 30 {
		if text, _ := ask(t, client, "info", `{}`); gjson.Get(text, "error.code").Str == "busy" {
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("%d refused", refused)
	}
	shared.rested()
	r, _ := sendTo(t, http.MethodDelete, at, "", header{"Authorization": "Bearer ann", "Mcp-Session-Id": id})
	again, _ := sendTo(t, http.MethodDelete, at, "", header{"Authorization": "Bearer ann", "Mcp-Session-Id": id})
	if r.StatusCode != 204 || again.StatusCode != 404 || one.Stats().Sessions+two.Stats().Sessions > 1 {
		t.Errorf("its end: %d, again: %d; %v, %v", r.StatusCode, again.StatusCode, one.Stats(), two.Stats())
	}
}

// TestDeclaresWhatIsTold: a client is told that lists may change where it can be told of that: by the stream of a session that this
// process has, or by the one on which a client of a version without sessions listens.
func TestDeclaresWhatIsTold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*Options)
		version  string
		declares bool
	}{
		"a session of its own":           {func(*Options) {}, statefulVersion, true},
		"a session that replicas share":  {func(o *Options) { o.Shared = newCommons() }, statefulVersion, false},
		"without sessions":               {func(o *Options) { o.Stateless = true }, statefulVersion, false},
		"2026-07-28":                     {func(*Options) {}, statelessVersion, true},
		"2026-07-28, replicas":           {func(o *Options) { o.Shared = newCommons() }, statelessVersion, true},
		"2026-07-28, without sessions":   {func(o *Options) { o.Stateless = true }, statelessVersion, true},
		"an older version, replicas":     {func(o *Options) { o.Shared = newCommons() }, "2025-03-26", false},
		"an older version, without them": {func(*Options) {}, "2025-03-26", true},
		"an older version, no session":   {func(o *Options) { o.Stateless = true }, "2025-06-18", false},
	} {
		for _, surface := range []string{"chain", "flat"} {
			t.Run(name+"/"+surface, func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(o *Options) {
					test.change(o)
					addUpstream(t, o, newBehind(t, openUpstream, false))
					steps.Await(t.Context(), o.Catalog, nil)
				})
				url := s.http(t, &rights.Caller{ID: "a"})
				_, hello := newRawClient(t, url, surface, test.version)
				_, message, _ := strings.Cut(hello, "data: ")
				capabilities := gjson.Get(message, "result.capabilities")
				declared := map[string]bool{"tools.listChanged": true}
				if surface == "flat" { // which passes through what the server behind has
					declared["prompts.listChanged"], declared["resources.listChanged"], declared["resources.subscribe"] = true, true, true
				}
				for what := range declared {
					kind, _, _ := strings.Cut(what, ".")
					if !capabilities.Get(kind).IsObject() || capabilities.Get(what).Bool() != test.declares {
						t.Errorf("%s: want %v: %s", what, test.declares, hello)
					}
				}
			})
		}
	}
}

// TestListensBesideReplicas: a client of a version without sessions is told of a change although replicas share sessions.
func TestListensBesideReplicas(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Shared = newCommons() })
	url := s.behind(t, &Door{Callers: knownCallers{"r": matrixCaller("reading", steps.TierAdmin, "")}})
	told, _ := listening(t, url, "r", statelessVersion)
	if err := s.catalog.Add(sourceWord(30), markedSource{newMarked(310, sourceWord(30), false, kindOfFunction{effect: steps.Read})}); err != nil {
		t.Fatal(err)
	}
	told.await(t, "tools")
}
