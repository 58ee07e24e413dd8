package mcp_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/source/results"
)

// TestResultGet: on every surface a chain gets a kept result of its caller whole, and of nobody else; no surface shows a tool for it.
func TestResultGet(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		if err := o.Catalog.Add("result", results.New()); err != nil {
			t.Fatal(err)
		}
		o.Dispatch, _ = groups.New(&groups.Config{Autodispatch: true})
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Callers{
		"ann":  {ID: "jwt:ann", Rights: steps.Rights{Tier: steps.TierReadWrite}},
		"less": {ID: "jwt:ann", Rights: steps.Rights{Tier: steps.TierRead}},
		"eve":  {ID: "jwt:eve", Rights: steps.Rights{Tier: steps.TierAdmin}},
	}})
	for _, surface := range []string{"chain", "dispatch", "flat", "hybrid"} {
		t.Run(surface, func(t *testing.T) {
			t.Parallel()
			at := url + "?surface=" + surface
			ann := connectAs(t, at, "ann", statelessVersion)
			if list := names(t, ann); strings.Contains(list, "result") {
				t.Errorf("the tools are %s", list)
			}
			if found, _ := mcptest.Ask(t, ann, "search", `{"query":"earlier large result"}`); !strings.Contains(found, `result.get(token: string)`) {
				t.Errorf("search finds %s", found)
			}
			text, _ := mcptest.Ask(t, ann, "chain",
				`{"lite":true,"budget":{"maxTotalTokens":300},"steps":[{"shop.item.list":{"limit":500}}]}`)
			token := gjson.Get(text, "continuation_token").Str
			if token == "" {
				t.Fatalf("the answer has no token: %s", text)
			}
			get := `{"lite":true,"steps":[{"result.get":{"token":"` + token + `"}}],"return":["$0.items[0].id","$0.items[499].id"]}`
			if text, _ := mcptest.Ask(t, ann, "chain", get); text != "[0,499]" {
				t.Errorf("ann gets %s, want [0,499]", text)
			}
			for _, other := range []string{"less", "eve"} {
				if text, failed := mcptest.Ask(t, connectAs(t, at, other, statelessVersion), "chain", get); !failed ||
					gjson.Get(text, "error.code").Str != "token_expired" {
					t.Errorf("%s gets %s, want token_expired", other, text)
				}
			}
		})
	}
}
