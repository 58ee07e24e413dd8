package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestUndoInPart: an undo that leaves a call has failed, which is exit status 1, and says which call stays and why. The timeline names the
// undo before the function, so that a narrow terminal shows it.
func TestUndoInPart(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf(`
http:
  allow: [%q]
  endpoints:
    put: {method: POST, url: %q}
    keep: {method: POST, url: %[2]q}
    drop: {method: DELETE, url: %[2]q}
functions: {http.put: {undo: {fn: http.drop}}}
`, strings.TrimPrefix(server.URL, "http://"), server.URL))
	clitest.Write(t, dir, "a.chain.json", `{"steps":[{"fn":"http.put"},{"fn":"http.keep"}]}`)
	if text, err := clitest.Command(t, dir, "run", "a.chain.json").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	answer, err := clitest.Command(t, dir, "undo", "--last").Output()
	if clitest.ExitCode(err) != "1" ||
		gjson.GetBytes(answer, "result.undone").Int() != 1 || gjson.GetBytes(answer, "result.left.#").Int() != 1 ||
		!strings.Contains(gjson.GetBytes(answer, "error.message").Str, "http.keep at 1 has no undo") {
		t.Errorf("undo --last: exit status %s, want 1, and the answer\n%s", clitest.ExitCode(err), answer)
	}
	timeline, err := clitest.Command(t, dir, "runs", "--last").Output()
	if err != nil || !strings.Contains(string(timeline), "undo: http.drop") {
		t.Errorf("runs --last: %v\n%s", err, timeline)
	}
}
