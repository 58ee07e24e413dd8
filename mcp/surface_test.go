package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// grouped has the items of the shop behind a dispatcher.
func grouped(surface mcp.Surface) func(*mcp.Options) {
	return func(o *mcp.Options) {
		o.Surface = surface
		o.Dispatch, _ = groups.New(&groups.Config{Groups: []groups.Group{{Name: "items", Resources: []string{"item"}}}})
	}
}

func TestSurfaces(t *testing.T) {
	t.Parallel()
	for surface, want := range map[mcp.Surface]string{
		mcp.SurfaceChain:    "chain info search",
		mcp.SurfaceDispatch: "chain info items search shop_echo shop_slow",
		mcp.SurfaceFlat:     "chain info search shop_echo shop_item_create shop_item_get shop_item_list shop_slow",
		mcp.SurfaceHybrid:   "chain info items search shop_echo shop_item_create shop_item_get shop_item_list shop_slow",
	} {
		t.Run(surface.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, grouped(surface))
			client := s.stdio(t, writer, nil)
			if got := names(t, client); got != want {
				t.Errorf("tools: %s, want %s", got, want)
			}
			list, err := client.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range list.Tools {
				legacy := strings.HasPrefix(tool.Description, "[Legacy: prefer items] ")
				if legacy != (surface == mcp.SurfaceHybrid && strings.HasPrefix(tool.Name, "shop_item_")) {
					t.Errorf("%s: %s", tool.Name, tool.Description)
				}
				schema, _ := json.Marshal(tool.InputSchema)
				if gjson.GetBytes(schema, "type").Str != "object" {
					t.Errorf("%s: %s", tool.Name, schema)
				}
			}
		})
	}
}

func TestDispatcher(t *testing.T) {
	t.Parallel()
	s := serve(t, grouped(mcp.SurfaceDispatch))
	client := s.stdio(t, writer, nil)
	for _, one := range []struct{ args, want string }{
		{`{"action":"get","id":7,"lite":true}`, `{"id":7,"name":"item 7"`},
		{`{"resource":"item","action":"get","params":{"id":7}}`, `{"ok":true,"result":{"id":7,"name":"item 7"`},
		{`{"action":"get","id":"seven"}`, `{"ok":false,"error":{"code":"bad_arguments",`},
		{`{"action":"get","params":{"id":"seven"}}`, `"at":"/params/id"`},
		{`{"action":"get","id":7,"params":{}}`, `beside params`},
		{`{"action":"gte","id":7}`, `"code":"unknown_function"`},
		{`{"action":"get","id":7,"lite":"false"}`, `"at":"/lite"`},
		{`{}`, `get`},
		{`{"action":"help","lite":true}`, `["create","get","list"]`},
		{`{"action":"help","schema":true,"params":{"action":"get"}}`, `"required":["id"]`},
		{`{"action":"create","params":{"count":60},"lite":true}`, `"accepted":60`},
	} {
		if text, _ := mcptest.Ask(t, client, "items", one.args); !strings.Contains(text, one.want) {
			t.Errorf("items %s: %s\nlacks %s", one.args, text, one.want)
		}
	}
	// A large result is negotiated whichever tool made it, and a fetch runs nothing, whatever stands around the token.
	text, _ := mcptest.Ask(t, client, "items", `{"action":"list","limit":400}`)
	token := gjson.Get(text, "result.continuation_token").Str
	calls := s.shop.calls.Load()
	for _, args := range []string{
		`{"resource":"item","action":"create","lite":true,"continuation_token":"` + token + `","mode":"query","query":"$result.items[399].id"}`,
		`{"resource":"item","action":"create","params":{"lite":true,"continuation_token":"` + token + `","mode":"query","query":"$result.items[399].id"}}`,
	} {
		if text, failed := mcptest.Ask(t, client, "items", args); failed || text != "399" {
			t.Errorf("fetch %s: %s", args, text)
		}
	}
	if s.shop.calls.Load() != calls {
		t.Error("a fetch called a function")
	}
	// What was not shown was not taught.
	small := serve(t, func(o *mcp.Options) { grouped(mcp.SurfaceDispatch)(o); o.MaxTotalTokens = 150 }).stdio(t, writer, nil)
	for range 2 {
		if text, _ := mcptest.Ask(t, small, "items", `{"action":"help","params":{"action":"get"}}`); !strings.Contains(text, "id: integer") && !strings.Contains(text, `"get"`) {
			t.Errorf("help in 150 tokens: %s", text)
		}
	}
	// Taught once.
	first, _ := mcptest.Ask(t, client, "items", `{"again":true}`)
	second, _ := mcptest.Ask(t, client, "items", `{}`)
	if strings.Contains(second, "id: integer") || !strings.Contains(first, "id: integer") {
		t.Errorf("first: %s\nsecond: %s", first, second)
	}
}

// TestFlatTools: results are what the source gave, unless the configuration has them held to a budget.
func TestFlatTools(t *testing.T) {
	t.Parallel()
	for _, processed := range []bool{false, true} {
		s := serve(t, func(o *mcp.Options) { grouped(mcp.SurfaceFlat)(o); o.Processed = processed })
		client := s.stdio(t, writer, nil)
		for _, one := range []struct{ tool, args, raw, processed string }{
			{"shop_echo", `{"text":"hi"}`, `{"said":"hi","big":12345678901234567890,"exact":1.10}`, `{"said":"hi","big":12345678901234567890,"exact":1.10}`},
			{"shop_echo", `{"text":"hi","lite":true,"verify":false}`, `{"said":"hi",`, `{"said":"hi",`},
			{"shop_echo", `{"text":"hi","lite":"yes"}`, `"at":"/lite"`, `"at":"/lite"`},
			{"shop_item_get", `{"id":"x"}`, `"at":"/id"`, `"at":"/id"`},
			{"shop_item_create", `{"count":60}`, `[{"id":0,`, `"accepted":60`},
			{"shop_item_list", `{"limit":400}`, `{"id":399,`, `"continuation_token":`},
			{"shop_item_create", `{"count":2,"verify":true}`, `[{"id":0,`, `[{"id":0,`},
		} {
			want := one.raw
			if processed {
				want = one.processed
			}
			if text, _ := mcptest.Ask(t, client, one.tool, one.args); !strings.Contains(text, want) {
				t.Errorf("processed %v, %s %s: %.300s\nlacks %s", processed, one.tool, one.args, text, want)
			}
		}
	}
}

// startingSource is a source that comes when it is told to.
type startingSource struct {
	*shop
	mu      sync.Mutex
	here    bool
	changed func()
}

func (s *startingSource) Status() steps.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here {
		return steps.Status{State: steps.StateReady}
	}
	return steps.Status{State: steps.StateStarting}
}

func (s *startingSource) Functions() []steps.Function {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.here {
		return nil
	}
	return []steps.Function{{Spec: steps.Spec{Name: "late.item.come", Effect: steps.Read}, Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}}
}

func (s *startingSource) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
}

func (s *startingSource) come() {
	s.mu.Lock()
	s.here = true
	changed := s.changed
	s.mu.Unlock()
	changed()
}

// TestStartingSource: what a call asks for is waited for while sources are starting, on every tool.
func TestStartingSource(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ tool, args, want string }{
		{"chain", `{"lite":true,"steps":[{"fn":"late.item.come"}]}`, `1`},
		{"items", `{"action":"come","lite":true}`, `1`},
		{"items", `{"action":"help","lite":true}`, `"come"`},
		{"search", `{"query":"come"}`, `late.item.come`},
		{"search", `{"names":["late.item.come"]}`, `late.item.come`},
	} {
		t.Run(one.tool+one.args, func(t *testing.T) {
			t.Parallel()
			s := serve(t, grouped(mcp.SurfaceDispatch))
			late := &startingSource{shop: newShop()}
			if err := s.catalog.Add("late", late); err != nil {
				t.Fatal(err)
			}
			client := s.stdio(t, writer, nil)
			time.AfterFunc(100*time.Millisecond, late.come)
			if text, failed := mcptest.Ask(t, client, one.tool, one.args); failed || !strings.Contains(text, one.want) {
				t.Errorf("%s", text)
			}
		})
	}
}

// TestListChanged tells clients of tools that come and go, and only of those.
func TestListChanged(t *testing.T) {
	t.Parallel()
	for _, surface := range []mcp.Surface{mcp.SurfaceChain, mcp.SurfaceFlat} {
		t.Run(surface.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, grouped(surface))
			changed := make(chan struct{}, 10)
			client := s.stdio(t, writer, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }})
			before := names(t, client)
			late := newShop()
			late.more = []steps.Function{{Spec: steps.Spec{Name: "late.come", Effect: steps.Read}, Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}}
			if err := s.catalog.Add("late", late); err != nil {
				t.Fatal(err)
			}
			if surface == mcp.SurfaceChain {
				if text, failed := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"late.come"}]}`); failed || text != "1" {
					t.Errorf("the new function: %s", text)
				}
				if names(t, client) != before || len(changed) > 0 {
					t.Error("the list of tools has changed")
				}
				return
			}
			select {
			case <-changed:
			case <-time.After(2 * time.Minute):
				t.Fatal("the client was not told")
			}
			if got := names(t, client); !strings.Contains(got, "late_come") {
				t.Errorf("tools: %s", got)
			}
		})
	}
}

// TestHTTPVersions has clients of each version, with and without sessions, at one URL.
func TestHTTPVersions(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.http(t, reader)
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			client := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, nil, version)
			if got := client.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("version %s", got)
			}
			if text, failed := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.echo","args":{"text":"a"}}]}`); failed || !strings.HasPrefix(text, `{"said":"a"`) {
				t.Errorf("chain: %s", text)
			}
			if text, failed := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.item.create"}]}`); !failed || !strings.Contains(text, "unknown_function") {
				t.Errorf("a reader writes: %s", text)
			}
			first, _ := mcptest.Ask(t, client, "search", `{"query":"get one item"}`)
			second, _ := mcptest.Ask(t, client, "search", `{"query":"get one item"}`)
			if stateless := version == "2026-07-28"; (first == second) != stateless {
				t.Errorf("taught: %s\n%s", first, second)
			}
		})
	}
	flat := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url + "?surface=flat"}, nil, "")
	if got := names(t, flat); !strings.Contains(got, "shop_item_get") {
		t.Errorf("another surface: %s", got)
	}
}

func TestHTTPRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) { o.MaxSessions, o.MaxRequestBytes = 2, 10_000 })
	url := s.http(t, reader)
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	post := func(change func(*http.Request), body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if change != nil {
			change(r)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	for what, one := range map[string]struct {
		change func(*http.Request)
		body   string
		status int
	}{
		"another host":         {func(r *http.Request) { r.Host = "evil.example" }, initialize, 403},
		"a host like loopback": {func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, initialize, 403},
		"another origin":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, initialize, 403},
		"no origin":            {func(r *http.Request) { r.Header.Set("Origin", "null") }, initialize, 403},
		"an unknown surface":   {func(r *http.Request) { r.URL.RawQuery = "surface=flta" }, initialize, 400},
		"too large":            {nil, `{"x":"` + strings.Repeat("a", 100_000) + `"}`, 413},
		"no JSON":              {nil, `{`, 400},
		"an old version":       {func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "1999-01-01") }, initialize, 400},
		"no session":           {func(r *http.Request) { r.Header.Set("Mcp-Session-Id", "nonsense") }, initialize, 404},
		"another type":         {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, initialize, 415},
	} {
		if status, text := post(one.change, one.body); status != one.status {
			t.Errorf("%s: %d %.200s", what, status, text)
		}
	}
	local := func(r *http.Request) {
		r.Host = strings.Replace(r.URL.Host, "127.0.0.1", "localhost", 1)
		r.Header.Set("Origin", "http://"+r.Host)
	}
	for i := range 3 {
		status, text := post(local, initialize)
		if want := map[bool]int{true: 200, false: 503}[i < 2]; status != want {
			t.Errorf("session %d: %d %.200s", i, status, text)
		}
	}
}

func FuzzTools(f *testing.F) {
	for _, args := range []string{
		`{}`, `null`, `[]`, `{"query":"item"}`, `{"names":["shop.item.get"]}`, `{"action":"create","count":2}`, `{"steps":[{"fn":"shop.item.create"}]}`,
		`{"continuation_token":"oc1_x"}`, `{"params":{"continuation_token":"oc1_x"}}`, `{"lite":true}`, `{"action":"help","lite":true}`, `{"text":"a"}`,
		`{"steps":[{"fn":"shop.vault.purge","args":{"vaultKey":"k"}}]}`,
	} {
		f.Add(uint8(0), args)
	}
	s := serve(f, func(o *mcp.Options) { grouped(mcp.SurfaceHybrid)(o); o.MaxTotalTokens = 300 })
	client := s.stdio(f, reader, nil)
	list, err := client.ListTools(context.Background(), nil)
	if err != nil {
		f.Fatal(err)
	}
	counter := s.options.Counter
	f.Fuzz(func(t *testing.T, tool uint8, args string) {
		if !json.Valid([]byte(args)) || strings.Contains(args, "slow") {
			return
		}
		name := list.Tools[int(tool)%len(list.Tools)].Name
		if name == "shop_slow" {
			return
		}
		result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
		if err != nil {
			return // such as arguments that are no object: the protocol's error
		}
		text := result.Content[0].(*sdk.TextContent).Text
		if n := counter.Count([]byte(text), -1); n > 300 {
			t.Errorf("%s %s: %d tokens: %s", name, args, n, text)
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%s %s: %s", name, args, text)
		}
		for _, word := range []string{"purge", "vaultKey", "secret things"} {
			if strings.Contains(text, word) && !strings.Contains(args, word) {
				t.Errorf("%s %s tells of %s: %s", name, args, word, text)
			}
		}
	})
}
