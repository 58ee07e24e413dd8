package mcp_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// TestListChangedCapability: list changes are declared only to clients that can be notified of them: on the stream of a session that
// this process has, or on the stream on which a client of a version without sessions listens.
func TestListChangedCapability(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*mcp.Options)
		version  string
		declares bool
	}{
		"a session of its own":           {func(*mcp.Options) {}, statefulVersion, true},
		"without sessions":               {func(o *mcp.Options) { o.Stateless = true }, statefulVersion, false},
		"2026-07-28":                     {func(*mcp.Options) {}, statelessVersion, true},
		"2026-07-28, without sessions":   {func(o *mcp.Options) { o.Stateless = true }, statelessVersion, true},
		"an older version, without them": {func(*mcp.Options) {}, "2025-03-26", true},
		"an older version, no session":   {func(o *mcp.Options) { o.Stateless = true }, "2025-06-18", false},
	} {
		for _, surface := range []string{"chain", "flat"} {
			t.Run(name+"/"+surface, func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(o *mcp.Options) {
					test.change(o)
					addUpstream(t, o, newUpstream(t, openUpstream, false))
					steps.Await(t.Context(), o.Catalog, nil)
				})
				url := s.http(t, &steps.Caller{ID: "a"})
				_, hello := newRawClient(t, url, surface, test.version)
				_, message, _ := strings.Cut(hello, "data: ")
				capabilities := gjson.Get(message, "result.capabilities")
				declared := map[string]bool{"tools.listChanged": true}
				if surface == "flat" { // this surface passes through the capabilities of upstreams
					declared["prompts.listChanged"], declared["resources.listChanged"], declared["resources.subscribe"] = true, true, true
				}
				for what := range declared {
					kind, _, _ := strings.Cut(what, ".")
					if !capabilities.Get(kind).IsObject() || capabilities.Get(what).Bool() != test.declares {
						t.Errorf("%s: want %t: %s", what, test.declares, hello)
					}
				}
			})
		}
	}
}
