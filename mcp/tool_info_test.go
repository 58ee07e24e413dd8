package mcp_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestHiddenIsForAdministrators: how many functions callers by default do not see is told to who sees all functions.
func TestHiddenIsForAdministrators(t *testing.T) {
	t.Parallel()
	const notice = "3 of 9 functions are not shown"
	w := newWorld(t, everything, asItIs, func(o *mcp.Options) { o.Hidden = func() string { return notice } })
	url := w.testServer.serveAs(t, &transport.Access{Callers: knownCallers{"all": matrixCaller("a", steps.TierAdmin, ""),
		"every": matrixCaller("d", steps.TierAdmin, "*"), "some": matrixCaller("b", steps.TierAdmin, "things.*"),
		"reader": matrixCaller("c", steps.TierRead, "")}})
	for token, want := range map[string]bool{"all": true, "every": true, "some": false, "reader": false} {
		c, _ := newRawClientWith(t, url, "chain", statelessVersion, token)
		if answer := c.call(t, "info", `{}`); strings.Contains(answer, notice) != want {
			t.Errorf("%s: %s", token, answer)
		}
	}
}
