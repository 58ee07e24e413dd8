package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestPlanCaller: on each surface, a caller of plans sees and calls the signed chains by each tool, and learns nothing of what they call, or
// of any other function or chain.
func TestPlanCaller(t *testing.T) {
	t.Parallel()
	a := steps.Caller{ID: "token:bot", Rights: steps.Rights{Plans: true}}
	for i, surface := range surfaces {
		t.Run(surface, func(t *testing.T) {
			t.Parallel()
			called := adminFunction(markedFunctions())
			w := serveWorld(t, a, func(spec *steps.Spec) bool { return spec.Saved == nil }, func(o *mcp.Options) {
				plan := fmt.Sprintf(`{"tool":true,"params":{"size":{"type":"integer","maximum":2}},"steps":[{"fn":%q,"args":{%q:"plain","count":"$input.size"}}],"return":{"size":"$input.size"}}`,
					called.Spec.Name, called.mark(inArgument))
				var list savedSource
				for name, signed := range map[string]string{"order": "key", "draft": ""} {
					fn, faults := chain.Saved(name, []byte(plan), &chain.Options{})
					if len(faults) > 0 {
						t.Fatal(faults)
					}
					fn.Saved.Signed = signed
					list = append(list, *fn)
				}
				if err := o.Catalog.Add(steps.ChainSource, list); err != nil {
					t.Fatal(err)
				}
			})
			c, _ := newRawClient(t, w.url, surface, []string{statefulVersion, statelessVersion}[i%2])
			words := hiddenWords(a, w.all)
			want := func(what, got, part string) {
				t.Helper()
				if !strings.Contains(got, part) {
					t.Errorf("%s: %s, want %s", what, got, part)
				}
				for _, word := range words {
					if strings.Contains(strings.ToLower(got), word) {
						t.Errorf("%s shows the hidden word %s: %s", what, word, got)
					}
				}
				if strings.Contains(got, "draft") {
					t.Errorf("%s shows a chain that nobody signed: %s", what, got)
				}
			}
			want("the list of tools", c.message(t, "tools/list", "{}"), `"name":"chain"`)
			want("search", c.call(t, "search", `{"query":"order"}`), "chain.order")
			want("info", c.call(t, "info", `{}`), `\"tier\":\"plans\"`)
			want("a call", c.call(t, "chain", `{"steps":[{"fn":"chain.order","args":{"size":1}}]}`), `\"size\":1`)
			want("a short call", c.call(t, "chain", `{"steps":"[{\"order\":{\"size\":2}}]","trace":"full"}`), `\"size\":2`)
			want("a plan", c.call(t, "chain", `{"steps":[{"fn":"chain.order","args":{"size":1}}],"dryRun":true}`), "denied")
			want("too much", c.call(t, "chain", `{"steps":[{"fn":"chain.order","args":{"size":3}}]}`), "bad_arguments")
			want("a chain", c.call(t, "chain", `{"steps":[{"fn":"chain.order","args":{"size":1}},{"expr":"1"}]}`), "denied")
			want("state", c.call(t, "chain", `{"steps":[{"fn":"chain.order","args":{"size":"$state.size"}}]}`), "denied")
			want("its tool", c.call(t, "order", `{"size":1}`), `\"size\":1`)
			want("another tool", c.call(t, "draf", `{"size":1}`), "rror")
			var calls int64
			for _, m := range w.all {
				if calls += m.calls.Load(); m.calls.Load() > 0 && m.Spec.Name != called.Spec.Name {
					t.Errorf("%s was called", m.Spec.Name)
				}
			}
			if calls != 3 {
				t.Errorf("%d calls, want those of the plans", calls)
			}
		})
	}
}

// signedOrder adds the signed chain order, which needs approval, to the functions of a server.
func signedOrder(t *testing.T) func(*mcp.Options) {
	return func(o *mcp.Options) {
		fn, faults := chain.Saved("order", []byte(`{"steps":[{"fn":"shop.item.create","args":{"count":1}}]}`), &chain.Options{})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		fn.Saved.Signed = "key"
		if err := o.Catalog.Add(steps.ChainSource, savedSource{*fn}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuestionOfRemovedPlan: what the user says about a plan whose signature was removed meanwhile counts for nothing.
func TestQuestionOfRemovedPlan(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"stays": true, "goes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withPlan := signedOrder(t)
			s := serve(t, func(o *mcp.Options) {
				withPlan(o)
				approving(t, steps.ApproveWrite)(o)
			})
			user := newUserPrompt()
			url := s.http(t, &steps.Caller{ID: "token:bot", Rights: steps.Rights{Plans: true}})
			c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, user.options(), statefulVersion)
			answer := make(chan string, 1)
			go func() {
				result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"chain.order"}]}`)})
				if err != nil || len(result.Content) != 1 {
					answer <- fmt.Sprint(err)
					return
				}
				answer <- result.Content[0].(*sdk.TextContent).Text
			}()
			<-user.asked
			change := withPlan
			if !stays {
				change = nil
			}
			o, _ := s.another(t, change)
			if _, err := s.Reload(o, nil); err != nil {
				t.Fatal(err)
			}
			user.answer <- struct{}{}
			text := <-answer
			if gjson.Get(text, "ok").Bool() != stays || s.shop.calls.Load() != map[bool]int64{true: 1}[stays] {
				t.Errorf("%d calls: %s", s.shop.calls.Load(), text)
			}
			if code := gjson.Get(text, "error.code").Str; !stays && code != "approval_required" {
				t.Errorf("the code is %q, want approval_required: %s", code, text)
			}
		})
	}
}

// TestPageOfRemovedPlan: neither does what somebody decides in the console, to which the client has sent its user.
func TestPageOfRemovedPlan(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"stays": true, "goes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := journal.New(&journal.Memory{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			s := serve(t, func(o *mcp.Options) {
				signedOrder(t)(o)
				o.Console = http.NotFoundHandler()
				o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Journal: j, Approve: steps.ApproveWrite,
					ApproveByPerson: true, MaxTotalTokens: o.MaxTotalTokens})
				if err != nil {
					t.Fatal(err)
				}
			})
			o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{
				Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}}}
			o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				change := signedOrder(t)
				if !stays {
					change = nil
				}
				next, _ := s.another(t, change)
				if _, err := s.Reload(next, nil); err != nil {
					t.Error(err)
				}
				_, run, _ := strings.Cut(strings.TrimSuffix(r.Params.URL, "/approve"), "/runs/")
				go decide(t, j, run, false)
				return &sdk.ElicitResult{Action: "accept"}, nil
			}
			url := s.http(t, &steps.Caller{ID: "token:bot", Rights: steps.Rights{Plans: true}})
			c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, o, statefulVersion)
			text, _ := mcptest.Ask(t, c, "chain", `{"steps":[{"fn":"chain.order"}]}`)
			if calls := s.shop.calls.Load(); gjson.Get(text, "ok").Bool() != stays || (calls == 1) != stays {
				t.Errorf("%d calls: %s", calls, text)
			}
		})
	}
}
