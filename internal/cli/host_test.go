package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestAllowedHost calls the host that the configuration allows. testdata/cli/call.txtar calls one that is not allowed.
func TestAllowedHost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q,"n":1.10}`, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf("http: {allow: [%q]}\n", strings.TrimPrefix(server.URL, "http://")))
	answer, err := clitest.Command(t, dir, "call", "--lite", "http.get", "url="+server.URL+"/a").Output()
	if err != nil || !strings.Contains(string(answer), `"body":{"path":"/a","n":1.10}`) {
		t.Errorf("got %s, %v, want the body as the server sent it", answer, err)
	}
}
