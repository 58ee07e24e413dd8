package mcp_test

import (
	"context"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestUnready: administrators are told why the server is not ready, nobody else is.
func TestUnready(t *testing.T) {
	t.Parallel()
	why := "not ready: the journal cannot be written"
	s := serve(t, func(o *mcp.Options) { o.Unready = func(context.Context) string { return why } })
	for caller, want := range map[*steps.Caller]string{mcptest.Caller("admin", steps.TierAdmin): why, writer: "", reader: ""} {
		info, _ := mcptest.Ask(t, s.stdio(t, caller, nil), "info", `{}`)
		if got := gjson.Get(info, "unready"); got.Str != want || got.Exists() != (want != "") {
			t.Errorf("%s: %s", caller.ID, info)
		}
	}
}
