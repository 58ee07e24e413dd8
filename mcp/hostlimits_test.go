package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// Limits of hosts, in characters unless noted otherwise. docs/clients describes each.
const (
	hostToolName    = 60      // the name of a tool, with onecall's name as its prefix
	hostDescription = 2 << 10 // bytes
	hostFailure     = 10_000
	hostProgress    = 200
)

// verboseSource returns a source whose names and descriptions have the maximum length.
func verboseSource() functionsSource {
	long := strings.Repeat("é", 4000)
	var list functionsSource
	for _, name := range []string{"wordy." + strings.Repeat("item", 50) + ".get", "wordy." + strings.Repeat("item", 50) + ".set",
		"wordy.short.get"} {
		list = append(list, echoFunction(steps.Spec{Name: name, Effect: steps.Read, Description: long,
			Input: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"` + long + `"}}}`)}))
	}
	return list
}

// TestListsWithinHosts: names and descriptions are within hosts' limits on every surface, whatever sources and operators write.
func TestListsWithinHosts(t *testing.T) {
	t.Parallel()
	for _, surface := range []mcp.Surface{mcp.SurfaceChain, mcp.SurfaceDispatch, mcp.SurfaceFlat, mcp.SurfaceHybrid} {
		t.Run(surface.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *mcp.Options) {
				o.Surface, o.ReadTool = surface, true
				o.Dispatch, _ = groups.New(&groups.Config{Autodispatch: true, Groups: []groups.Group{
					{Name: "described", Description: strings.Repeat("words é ", 1000), Resources: []string{"item", "short"}},
					{Name: strings.Repeat("group-", 10), Resources: []string{"shop.echo"}},
				}})
				if err := o.Catalog.Add("wordy", verboseSource()); err != nil {
					t.Fatal(err)
				}
			})
			list, err := s.stdio(t, writer, nil).ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range list.Tools {
				if n := len("onecall_" + tool.Name); n > hostToolName {
					t.Errorf("the name %s has %d characters with its prefix, want at most %d", tool.Name, n, hostToolName)
				}
				// What a function's source says is passed on whole; hosts cut it themselves.
				if n := len(tool.Description); n == 0 || n > hostDescription && !strings.HasPrefix(tool.Name, "wordy_") {
					t.Errorf("the description of %s has %d bytes, want 1 to %d: %.60s", tool.Name, n, hostDescription, tool.Description)
				}
				if !utf8.ValidString(tool.Description) {
					t.Errorf("the description of %s is truncated within a character", tool.Name)
				}
				schema, err := json.Marshal(tool.InputSchema)
				if err != nil {
					t.Fatal(err)
				}
				gjson.GetBytes(schema, "properties").ForEach(func(name, property gjson.Result) bool {
					if n := len(property.Get("description").Str); name.Str == "a" && n != 8000 {
						t.Errorf("the description of %s of %s has %d bytes, want all 8000", name.Str, tool.Name, n)
					}
					return true
				})
				if surface == mcp.SurfaceDispatch && tool.Name == "described" && !strings.Contains(tool.Description, "Omit action for help") {
					t.Errorf("the description lacks the hint for help: %s", tool.Description[len(tool.Description)-100:])
				}
			}
		})
	}
}

// failing returns a source whose functions fail with long messages.
func failing() functionsSource {
	return functionsSource{{
		Spec: steps.Spec{Name: "bad.fail", Effect: steps.Read, Input: json.RawMessage(`{"type":"object"}`)},
		Call: func(context.Context, []byte) ([]byte, error) {
			f := fault.New(fault.FunctionFailed, "%s", strings.Repeat("it failed é \"quoted\" ", 2000))
			f.Body = []byte(`"` + strings.Repeat("body ", 5000) + `"`)
			return nil, f
		},
	}}
}

// TestFailuresWithinHosts: a failure is short enough for hosts to show it, with many failing elements, long messages and large arguments,
// from each of onecall's tools that runs something.
func TestFailuresWithinHosts(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		grouped(mcp.SurfaceDispatch)(o)
		o.ReadTool = true
		o.Dispatch, _ = groups.New(&groups.Config{Groups: []groups.Group{{Name: "bad", Resources: []string{"bad"}}}})
		if err := o.Catalog.Add("bad", failing()); err != nil {
			t.Fatal(err)
		}
	})
	client := s.stdio(t, writer, nil)
	large := strings.Repeat("large argument é ", 5000)
	for name, test := range map[string]struct{ tool, args string }{
		"elements":        {"chain", `{"onError":"continue","steps":[{"fn":"bad.fail","forEach":"1..300","args":{"a":"` + large[:1000] + `"}}]}`},
		"steps":           {"chain", `{"onError":"continue","steps":[` + strings.Repeat(`{"fn":"bad.fail"},`, 200) + `{"fn":"bad.fail"}]}`},
		"large arguments": {"chain", `{"steps":[{"fn":"shop.echo","args":{"text":"` + large + `"}},{"fn":"bad.fail","args":{"a":"$0","b":"` + large + `"}}]}`},
		"a trace":         {"chain", `{"trace":"summary","onError":"continue","steps":[{"fn":"shop.echo","forEach":"1..500","args":{"text":"` + large[:200] + `"}},{"fn":"bad.fail"}]}`},
		"faults":          {"chain", `{"steps":[` + strings.Repeat(`{"fn":"nothing.`+large[:100]+`"},`, 200) + `{"fn":"shop.echo"}]}`},
		"inline":          {"chain", `{"steps":[{"chain":{"steps":[{"fn":"bad.fail","forEach":"1..100"}]},"forEach":"1..20"}]}`},
		"reading":         {"chain_read", `{"steps":[{"fn":"bad.fail","forEach":"1..300"}]}`},
		"a dispatcher":    {"bad", `{"action":"fail","a":"` + large + `"}`},
		"not JSON":        {"chain", `{"steps":"` + large + `"}`},
		"search":          {"search", `{"query":"` + large + `","nothing":1}`},
	} {
		text, failed := mcptest.Ask(t, client, test.tool, test.args)
		if n := utf8.RuneCountInString(text); !failed || n > hostFailure || !json.Valid([]byte(text)) {
			t.Errorf("%s: failed %t, %d characters, want a failure of at most %d: %.200s", name, failed, n, hostFailure, text)
		}
	}
}

// TestProgressOfSteps: hosts get a message for each step, no longer than they show.
func TestProgressOfSteps(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100)
	s := serve(t, func(o *mcp.Options) {
		o.ReadTool = true
		if err := o.Catalog.Add("long", functionsSource{echoFunction(steps.Spec{Name: "long." + strings.Repeat("name", 60), Effect: steps.Read}), {
			Spec: steps.Spec{Name: "long.reports", Effect: steps.Read},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				steps.CallbacksOf(ctx).Progress(ctx, 1, 2, strings.Repeat(long, 10))
				return []byte("1"), nil
			},
		}}); err != nil {
			t.Fatal(err)
		}
	})
	var mu sync.Mutex
	messages := map[float64]string{}
	client := s.stdio(t, writer, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
		r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		messages[r.Params.Progress] = r.Params.Message
	}})
	chain := `{"steps":[{"id":"first","fn":"shop.echo"},{"fn":"long.` + strings.Repeat("name", 60) + `"},{"fn":"long.reports"},{"expr":"$0.said"},
		{"fn":"shop.echo","forEach":"1..3"},{"chain":{"steps":[{"fn":"shop.echo"}]}},{"fn":"shop.echo","when":"false"}]}`
	for _, tool := range []string{"chain", "chain_read"} {
		mu.Lock()
		clear(messages)
		mu.Unlock()
		params := &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(chain), Meta: sdk.Meta{"progressToken": "p"}}
		if result, err := client.CallTool(t.Context(), params); err != nil || result.IsError {
			t.Fatalf("%s: %+v, %v; want success", tool, result, err)
		}
		ended := func() int {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for value, message := range messages {
				if value == float64(int(value)) && value > 0 {
					n++
				}
				if count := utf8.RuneCountInString(message); count > hostProgress || !strings.HasPrefix(message, "step ") {
					t.Errorf("%s: a progress message of %d characters, want at most %d: %s", tool, count, hostProgress, message)
				}
			}
			return n
		}
		polltest.Until(t, "seven reports", func() bool { return ended() >= 7 })
	}
}
