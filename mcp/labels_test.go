package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/exposure"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// serveLabels returns a server of the shop and upstreams: what the functions of the upstream a give, and the notes of items, have the
// label outsider, and after a model was shown that, no text of its own may reach the argument vaultKey of shop.vault.purge.
func serveLabels(t *testing.T, surface mcp.Surface, upstreams ...*upstreamServer) *testServer {
	t.Helper()
	outsider := func(path ...schema.Element) []steps.Given { return []steps.Given{{Label: "outsider", Path: path}} }
	settings, faults := steps.NewSettings([]steps.Setting{
		{Pattern: "shop.item.get", Gives: outsider(schema.Element{Key: "note"})}, {Pattern: "a.*", Gives: outsider()},
		{Pattern: "shop.vault.purge", Takes: []steps.Taken{{Role: "where", Path: []schema.Element{{Key: "vaultKey"}}}}},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	catalog, err := steps.NewCatalog(&steps.CatalogOptions{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { catalog.Close() })
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	values := state.New(&state.Options{Journal: func() *journal.Journal { return j }})
	flows := []chain.FlowRule{{From: "outsider", To: "where", Do: "deny", Through: "model"}}
	return serve(t, func(o *mcp.Options) {
		o.Surface, o.Catalog = surface, catalog
		if err := catalog.Add("shop", newShop()); err != nil {
			t.Fatal(err)
		}
		if err := catalog.Add("state", values); err != nil {
			t.Fatal(err)
		}
		for _, b := range upstreams {
			addUpstream(t, o, b)
		}
		steps.Await(t.Context(), catalog, nil)
		counter, results := storeOf(t)
		t.Cleanup(func() { results.Close() })
		if o.Engine, err = chain.New(&chain.Options{Functions: catalog, Counter: counter, Results: results, Journal: j, MaxTotalTokens: 300,
			Flows: flows}); err != nil {
			t.Fatal(err)
		}
		o.Labels = rememberLabels(j, flows, values.Labels)
	})
}

// rememberLabels returns what clients were shown of the labels that rules name, for mcp.Options.Labels.
func rememberLabels(j *journal.Journal, flows []chain.FlowRule, kept func(context.Context, string, []byte) ([]steps.Label, error),
) func(context.Context, string, []byte) chain.SessionLabels {
	rules := &exposure.Rules{State: func(ctx context.Context, caller string, args []byte) ([]steps.Label, bool) {
		list, err := kept(ctx, caller, args)
		return list, err == nil
	}}
	for _, r := range flows {
		rules.Model, rules.All = append(rules.Model, r.From), append(rules.All, r.From)
	}
	callers := &exposure.Callers{Journal: func() *journal.Journal { return j }, Remember: time.Hour}
	return func(ctx context.Context, caller string, request []byte) chain.SessionLabels {
		if session := steps.SessionOf(ctx); session != nil {
			return rules.Open(ctx, caller, exposure.Of(session), nil, request)
		}
		record, keep := callers.Of(ctx, caller, rules.Model)
		return rules.Open(ctx, caller, record, keep, request)
	}
}

// rulesIn returns the flow rules of a transcript's options.
func rulesIn(written gjson.Result) (flows []chain.FlowRule) {
	for _, r := range written.Array() {
		flows = append(flows, chain.FlowRule{From: r.Get("from").Str, To: r.Get("to").Str, Do: r.Get("do").Str, Through: r.Get("through").Str})
	}
	return flows
}

// labelsIn returns the labels and roles of functions in a transcript's options.
func labelsIn(t *testing.T, functions gjson.Result) *steps.Settings {
	t.Helper()
	var list []steps.Setting
	functions.ForEach(func(name, written gjson.Result) bool {
		setting := steps.Setting{Pattern: name.Str}
		var faults []*fault.Error
		if gives := written.Get("gives"); gives.Exists() {
			setting.Gives, faults = steps.ParseGives([]byte(gives.Raw))
		}
		if takes := written.Get("takes"); takes.Exists() && len(faults) == 0 {
			setting.Takes, faults = steps.ParseTakes([]byte(takes.Raw))
		}
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		list = append(list, setting)
		return true
	})
	settings, faults := steps.NewSettings(list)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return settings
}

var admin = mcptest.Caller("admin", steps.TierAdmin)

// purges reports whether a client may write a text of its own where outsiders' must not go.
func purges(t *testing.T, c *sdk.ClientSession, tool string) bool {
	t.Helper()
	args := `{"vaultKey":"some key"}`
	if tool == "chain" {
		args = `{"steps":[{"fn":"shop.vault.purge","args":` + args + `}]}`
	}
	text, failed := mcptest.Ask(t, c, tool, args)
	if failed != strings.Contains(text, "flow_denied") {
		t.Fatalf("%s is answered %s", tool, text)
	}
	return !failed
}

// TestLabelsOfSessions: what one client was shown says nothing about another.
func TestLabelsOfSessions(t *testing.T) {
	t.Parallel()
	s := serveLabels(t, mcp.SurfaceChain)
	url := s.http(t, admin)
	clients := map[string]func() *sdk.ClientSession{
		"http":  func() *sdk.ClientSession { return connectHTTP(t, url, statefulVersion, nil) },
		"stdio": func() *sdk.ClientSession { return s.stdio(t, admin, nil) },
	}
	for name, connect := range clients {
		first, second := connect(), connect()
		if text, failed := mcptest.Ask(t, first, "chain", `{"steps":[{"fn":"shop.item.get","args":{"id":1}}]}`); failed {
			t.Fatal(text)
		}
		if text, failed := mcptest.Ask(t, second, "chain", `{"steps":[{"fn":"shop.item.get","args":{"id":1}}],"return":"$0.name"}`); failed {
			t.Fatal(text)
		}
		if one, other := purges(t, first, "chain"), purges(t, second, "chain"); one || !other {
			t.Errorf("%s: the client that was shown a note may write: %t; another one: %t", name, one, other)
		}
	}
}

// TestLabelsOfCallers: without sessions, what a caller was shown by one request goes for all that it sends, and for no other caller.
func TestLabelsOfCallers(t *testing.T) {
	t.Parallel()
	s := serveLabels(t, mcp.SurfaceChain)
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Callers{"ann": mcptest.Caller("ann", steps.TierAdmin),
		"bob": mcptest.Caller("bob", steps.TierAdmin)}})
	connect := func(token string) *sdk.ClientSession {
		return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: withToken(token)}, nil, statelessVersion)
	}
	if text, failed := mcptest.Ask(t, connect("ann"), "chain", `{"steps":[{"fn":"shop.item.get","args":{"id":1}}]}`); failed {
		t.Fatal(text)
	}
	if ann, bob := purges(t, connect("ann"), "chain"), purges(t, connect("bob"), "chain"); ann || !bob {
		t.Errorf("the caller that was shown a note may write: %t; another one: %t", ann, bob)
	}
}

// TestLabelsOfDoors: whatever reaches a client of what a server with labeled functions says counts as shown.
func TestLabelsOfDoors(t *testing.T) {
	t.Parallel()
	ask := func(tool, args string) func(*testing.T, *sdk.ClientSession) {
		return func(t *testing.T, c *sdk.ClientSession) { mcptest.Ask(t, c, tool, args) }
	}
	for name, test := range map[string]struct {
		open  func(*testing.T, *sdk.ClientSession)
		shown bool
	}{
		"a flat result":           {ask("shop_item_get", `{"id":1}`), true},
		"a flat result without":   {ask("shop_item_list", `{"limit":1}`), false},
		"a flat tool of a server": {ask("a_exact", `{}`), true},
		"its failure":             {ask("a_fail", `{}`), true},
		"its question":            {ask("a_ask", `{}`), true},
		"a resource": {func(t *testing.T, c *sdk.ClientSession) {
			if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://a"}); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a resource of another": {func(t *testing.T, c *sdk.ClientSession) {
			if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://b"}); err != nil {
				t.Fatal(err)
			}
		}, false},
		"a prompt": {func(t *testing.T, c *sdk.ClientSession) {
			if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "only_a"}); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a completion": {func(t *testing.T, c *sdk.ClientSession) {
			if _, err := c.Complete(t.Context(), &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "only_a"},
				Argument: sdk.CompleteParamsArgument{Name: "x", Value: "y"}}); err != nil {
				t.Fatal(err)
			}
		}, true},
		"lists": {func(t *testing.T, c *sdk.ClientSession) {
			if _, err := c.ListResources(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveLabels(t, mcp.SurfaceFlat, newUpstream(t, "a", false), newUpstream(t, "b", false))
			_, o := capableClient("ann")
			c := connectHTTP(t, s.http(t, admin), statefulVersion, o)
			test.open(t, c)
			if purges(t, c, "shop_vault_purge") == test.shown {
				t.Errorf("then a text of its own may go anywhere: %t", !test.shown)
			}
		})
	}
}

// TestLabelsOfFlatState: what a client keeps by a tool of its own has the labels of what it wrote, and whoever reads it so is shown them.
func TestLabelsOfFlatState(t *testing.T) {
	t.Parallel()
	s := serveLabels(t, mcp.SurfaceFlat)
	url := s.http(t, admin)
	first, second := connectHTTP(t, url, statefulVersion, nil), connectHTTP(t, url, statefulVersion, nil)
	ask := func(c *sdk.ClientSession, tool, args string) {
		t.Helper()
		if text, failed := mcptest.Ask(t, c, tool, args); failed {
			t.Fatal(text)
		}
	}
	ask(first, "shop_item_get", `{"id":1}`)
	ask(first, "state_set", `{"key":"k","value":"what the note wants"}`)
	ask(second, "state_get", `{"key":"k"}`)
	if purges(t, second, "shop_vault_purge") {
		t.Error("after it was shown a kept value with the label, a client may write a text of its own")
	}
}

// TestLabelsOfTasks: the answer of a run in the background counts as shown when its client gets it.
func TestLabelsOfTasks(t *testing.T) {
	t.Parallel()
	s := serveLabels(t, mcp.SurfaceChain)
	c := connectHTTP(t, s.http(t, admin), statefulVersion, nil)
	text, failed := mcptest.Ask(t, c, "chain", `{"async":true,"steps":[{"fn":"shop.item.get","args":{"id":1}}]}`)
	var began struct{ Run string }
	if failed || json.Unmarshal([]byte(text), &began) != nil || began.Run == "" {
		t.Fatal(text)
	}
	var info struct {
		Fetch json.RawMessage
	}
	for len(info.Fetch) == 0 {
		text, _ = mcptest.Ask(t, c, "info", fmt.Sprintf(`{"run":%q}`, began.Run))
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			t.Fatal(text)
		}
	}
	if text, failed = mcptest.Ask(t, c, "chain", string(info.Fetch)); failed {
		t.Fatal(text)
	}
	if purges(t, c, "chain") {
		t.Error("after its answer was fetched, a text of the client's own may go anywhere")
	}
}
