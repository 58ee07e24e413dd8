package transport_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestNoSession: a client of a version with sessions that sends no id learns what is missing.
func TestNoSession(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.http(t, anyone)
	for _, method := range []string{"tools/list", "tools/call", "notifications/initialized"} {
		r, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"info","arguments":{}}}`,
			mcptest.Header{"Mcp-Protocol-Version": "2025-11-25"})
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(text, "Mcp-Session-Id is missing: begin with initialize") {
			t.Errorf("%s: %d %s", method, r.StatusCode, text)
		}
	}
}
