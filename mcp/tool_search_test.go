package mcp_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
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

// TestSearchReportsDownFirst: a source that is down stands before functions of other sources, which may be far matches.
func TestSearchReportsDownFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		down := &failingSource{status: steps.Status{State: steps.StateFailed, Error: fault.New(fault.Unavailable, "no such program")}}
		if err := o.Catalog.Add("db", down); err != nil {
			t.Fatal(err)
		}
	})
	text, _ := mcptest.Ask(t, s.stdio(t, reader, nil), "search", `{"query":"list items of the database"}`)
	down, functions := strings.Index(text, `"down":[{"name":"db"`), strings.Index(text, `"functions":[`)
	if down < 0 || functions < down {
		t.Errorf("%s, want down before functions", text)
	}
}
