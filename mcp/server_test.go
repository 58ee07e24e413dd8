package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

func TestChainOverStdio(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, writer, nil)
	if got := names(t, client); got != "chain info search" {
		t.Errorf("tools: %s", got)
	}
	text, failed := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.item.list","args":{"limit":3}},{"fn":"shop.echo","args":{"text":"$0.items[2].name"}}]}`)
	if failed || text != `{"said":"item 2","big":12345678901234567890,"exact":1.10}` {
		t.Errorf("lite: %s", text)
	}
	text, failed = mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.echo","args":{"text":"$0.x"}}]}`)
	if !failed || gjson.Get(text, "error.code").Str != "compile" {
		t.Errorf("a fault: %s", text)
	}
	text, failed = mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":400}}]}`)
	token := gjson.Get(text, "result.continuation_token").Str
	if failed || token == "" {
		t.Fatalf("no probe: %s", text)
	}
	calls := s.shop.calls.Load()
	for _, tool := range []string{"chain", "search", "info"} {
		text, failed = mcptest.Ask(t, client, tool, `{"lite":true,"continuation_token":"`+token+`","mode":"query","query":"$result.items[399].id"}`)
		if failed || text != "399" {
			t.Errorf("fetch by %s: %s", tool, text)
		}
	}
	if s.shop.calls.Load() != calls {
		t.Error("a fetch called a function")
	}
}

// TestHiddenStaysHidden looks for a function that the caller may not use in every byte of every answer.
func TestHiddenStaysHidden(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, writer, nil)
	for _, one := range []struct{ tool, args string }{
		{"chain", `{"steps":[{"fn":"shop.vault.purge","args":{"vaultKey":"x"}}]}`},
		{"chain", `{"steps":[{"fn":"purge"}]}`},
		{"chain", `{"steps":[{"fn":"shop.vaul.purge"}]}`},
		{"chain", `{"steps":[{"fn":"shop.item.purge"}],"dryRun":true}`},
		{"search", `{"query":"purge vault secret things"}`},
		{"search", `{"query":"shop"}`},
		{"search", `{"names":["shop.vault.purge","vault.purge","purg"]}`},
		{"search", `{"names":["shop.vault.purge"],"schema":true}`},
		{"search", `{}`},
		{"info", `{}`},
	} {
		text, _ := mcptest.Ask(t, client, one.tool, one.args)
		asked := strings.ToLower(one.args)
		for _, word := range []string{"vault.purge", "vaultkey", "secret things"} {
			if strings.Contains(strings.ToLower(text), word) && !strings.Contains(asked, word) {
				t.Errorf("%s %s tells of %s: %s", one.tool, one.args, word, text)
			}
		}
	}
	if text, _ := mcptest.Ask(t, client, "info", `{}`); gjson.Get(text, "functions").Int() != 5 {
		t.Errorf("info counts what is hidden: %s", text)
	}
	admin := s.stdio(t, mcptest.Caller("admin", steps.TierAdmin), nil)
	if text, failed := mcptest.Ask(t, admin, "chain", `{"lite":true,"steps":[{"fn":"shop.vault.purge"}]}`); failed || text != `"purged"` {
		t.Errorf("the admin: %s", text)
	}
	if s.shop.calls.Load() != 1 {
		t.Errorf("%d calls", s.shop.calls.Load())
	}
}

func TestSearchTeachesOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, writer, nil)
	first, _ := mcptest.Ask(t, client, "search", `{"query":"get one item"}`)
	if !strings.HasPrefix(gjson.Get(first, "functions.0").Str, "shop.item.get(id: integer)") {
		t.Fatalf("first: %s", first)
	}
	second, _ := mcptest.Ask(t, client, "search", `{"query":"get one item"}`)
	if strings.Contains(second, "(id: integer)") || !strings.Contains(second, `"known":["shop.item.get"`) || len(second) > len(first) {
		t.Errorf("second: %s", second)
	}
	if named, _ := mcptest.Ask(t, client, "search", `{"names":["itemGet"]}`); strings.Contains(named, "(id: integer)") {
		t.Errorf("named: %s", named)
	}
	if again, _ := mcptest.Ask(t, client, "search", `{"query":"get one item","again":true}`); again != first {
		t.Errorf("again: %s\nfirst: %s", again, first)
	}
	other := s.stdio(t, writer, nil)
	if text, _ := mcptest.Ask(t, other, "search", `{"query":"get one item"}`); text != first {
		t.Errorf("another session: %s", text)
	}
	if lite, _ := mcptest.Ask(t, client, "search", `{"query":"get one item","lite":true}`); !strings.HasPrefix(lite, `{"functions":["shop.item.get"`) {
		t.Errorf("lite: %s", lite)
	}
	schema, _ := mcptest.Ask(t, client, "search", `{"names":["shop.item.get"],"schema":true}`)
	if got := gjson.Get(schema, "functions.0.inputSchema").Raw; got != `{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}` {
		t.Errorf("schema: %s", schema)
	}
}

func TestSearchAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, reader, nil)
	for args, want := range map[string]string{
		`{"query":"zebra crossing"}`:          `"note":"nothing fits`,
		`{"names":["shop.item.gte"]}`:         `"unknown":[{"name":"shop.item.gte","nearest":["shop.item.get"`,
		`{"names":["shop.item.create"]}`:      `"unknown":[{"name":"shop.item.create"`,
		`{"names":["chain"]}`:                 `"onecall":{"chain":{"chain":{`,
		`{"names":["chain"],"schema":true}`:   `"$schema"`,
		`{"query":"x","names":["y"]}`:         `"code":"bad_request"`,
		`{"qurey":"x"}`:                       `"nearest":"query"`,
		`{"query":7,"page":0,"schema":"yes"}`: `"3 faults"`,
		`{"query":"x","query":"y"}`:           `given twice`,
		`{}`:                                  `"sources":[{"name":"shop","functions":4}]`,
		`{"query":"item","page":9}`:           `past the end`,
		`{"query":"item","lite":"false"}`:     `"at":"/lite"`,
	} {
		if text, _ := mcptest.Ask(t, client, "search", args); !strings.Contains(text, want) {
			t.Errorf("search %s: %s\nlacks %s", args, text, want)
		}
	}
	for args, want := range map[string]string{
		`{"lite":true}`: `{"name":"onecall","version":"1.2.3","state":"ready"}`,
		`{}`:            `"surface":"chain","caller":"reader","tier":"read","functions":4,"sources":[{"name":"shop","functions":4}]`,
		`{"x":1}`:       `"code":"unknown_field"`,
	} {
		if text, _ := mcptest.Ask(t, client, "info", args); !strings.Contains(text, want) {
			t.Errorf("info %s: %s\nlacks %s", args, text, want)
		}
	}
}

func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var mu sync.Mutex
	var told []string
	client := s.stdio(t, writer, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		line, _ := json.Marshal([]any{r.Params.ProgressToken, r.Params.Progress, r.Params.Total, r.Params.Message})
		told = append(told, string(line))
	}})
	params := &sdk.CallToolParams{
		Name: "chain", Arguments: json.RawMessage(`{"lite":true,"steps":[{"id":"first","fn":"shop.echo","args":{"text":"a"}},{"fn":"shop.echo","args":{"text":"$0.said"}}]}`),
		Meta: sdk.Meta{"progressToken": "p7"},
	}
	if _, err := client.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	want := `["p7",1,2,"step 0 first: shop.echo"] ["p7",2,2,"step 1: shop.echo"]`
	mcptest.Until(func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) >= 2
	})
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(told, " "); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.shop.started
		cancel()
	}()
	if _, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)}); err == nil {
		t.Error("a cancelled call was answered")
	}
	select {
	case <-s.shop.ended:
	case <-time.After(2 * time.Minute):
		t.Error("the running call was not cancelled")
	}
}
