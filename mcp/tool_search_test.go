package mcp_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestSearchFaults: faults in the arguments of search are reported with their positions.
func TestSearchFaults(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, reader, nil)
	for args, want := range map[string]string{
		`{"query":"` + strings.Repeat("items ", 4096/6+1) + `"}`: `limit_exceeded /query`,
		`{"names":["a"],"query":"b"}`:                            `bad_request /names`,
		`{"names":["a"],"page":2}`:                               `bad_request /names`,
		`{"names":["a"` + strings.Repeat(`,"a"`, 100) + `]}`:     `limit_exceeded /names`,
		`{"page":1000000000000}`:                                 `bad_request /page`,
		`{"query":7}`:                                            `bad_request /query`,
	} {
		text, failed := mcptest.Ask(t, client, "search", args)
		if got := gjson.Get(text, "error.code").Str + " " + gjson.Get(text, "error.at").Str; !failed || got != want {
			t.Errorf("%.40s: %s, want %s", args, text, want)
		}
	}
	if text, _ := mcptest.Ask(t, client, "search", `{"names":["chain"],"schema":true}`); !gjson.Get(text, "onecall.chain.$schema").Exists() {
		t.Errorf("the answer lacks the schema of chain: %s", text)
	}
	if text, failed := mcptest.Ask(t, client, "search", `{"query":"`+strings.Repeat("items ", 4096/6)+`"}`); failed ||
		!strings.Contains(text, "shop.item.list") {
		t.Errorf("a query of the maximum length: %s, want shop.item.list in it", text)
	}
}
