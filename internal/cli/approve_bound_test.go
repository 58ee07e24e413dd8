package cli_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestApproveBound: after the approval of calls that only the run's caller can make, with its own credential, approve does not name a
// command that cannot make them.
func TestApproveBound(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	clitest.Write(t, folder, "onecall.yaml", `
http: {endpoints: {pay: {method: POST, url: "http://127.0.0.1:1/pay", auth: {caller: headers, pass: [X-Tenant]}}}}
functions: {http.pay: {approve: write}}
access: {http: read_write}
`)
	base := serve(t, folder, clientAddress, "serve", "--http", "127.0.0.1:0")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call",`+
		`"params":{"name":"chain","arguments":{"steps":[{"http.pay":{}}]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"X-Tenant": "acme", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "chain"} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	list, _ := clitest.Command(t, folder, "runs", "--status", "waiting", "--json").Output()
	run := regexp.MustCompile(`run_\w+`).FindString(string(list))
	if run == "" {
		t.Fatalf("no run waits: %s", list)
	}
	said, err := clitest.Command(t, folder, "approve", run).CombinedOutput()
	if want := fmt.Sprintf(`the run's caller makes the calls, with its own credential for http.pay, by {"resume": %q}: no command has that`, run); err != nil ||
		!strings.Contains(string(said), want) || strings.Contains(string(said), "onecall resume") {
		t.Errorf("approve says %v: %s\nwant %s", err, said, want)
	}
}
