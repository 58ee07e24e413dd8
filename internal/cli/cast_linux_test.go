package cli_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/gen/cast"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

// castChain fails at its last step, after the card is charged.
const castChain = `{"steps": [
  {"id": "order", "fn": "shop.order.get", "args": {"id": 1042}},
  {"id": "paid", "fn": "shop.charge.create", "args": {"card": "$order.card", "cents": "$order.cents"}},
  {"id": "sent", "fn": "shop.parcel.create", "args": {"carrier": "dlh", "to": "$order.address"}}],
 "return": {"charge": "$paid.id", "tracking": "$sent.tracking"}}
`

const castColumns = 105

// castService is the OpenAPI document of the service that the chain calls.
const castService = `{"openapi": "3.0.3", "info": {"title": "Shop", "version": "1"}, "paths": {
  "/order/{id}": {"get": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
    "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "object",
      "properties": {"card": {"type": "string"}, "cents": {"type": "integer"}, "address": {"type": "string"}}}}}}}}},
  "/charge": {"post": {"requestBody": {"required": true, "content": {"application/json": {"schema": {
    "type": "object", "required": ["card", "cents"], "properties": {"card": {"type": "string"}, "cents": {"type": "integer"}}}}}},
    "responses": {"201": {"description": "", "content": {"application/json": {"schema": {
      "type": "object", "properties": {"id": {"type": "string"}}}}}}}}},
  "/parcel": {"post": {"requestBody": {"required": true, "content": {"application/json": {"schema": {
    "type": "object", "required": ["carrier", "to"], "properties": {"carrier": {"type": "string"}, "to": {"type": "string"}}}}}},
    "responses": {"201": {"description": "", "content": {"application/json": {"schema": {
      "type": "object", "properties": {"tracking": {"type": "string"}}}}}}}}}}}`

// TestCast checks that the terminal cast of the README is what the commands print: a chain fails after the card is charged, is
// corrected and resumed, and the card is charged once. With -update it writes the cast.
func TestCast(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("needs the script command for a terminal")
	}
	var charges atomic.Int64
	url := castServer(t, &charges)
	dir := t.TempDir()
	clitest.Write(t, dir, "ship.json", castChain)
	clitest.Write(t, dir, "shop.json", castService)
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf("openapi:\n  shop: {spec: shop.json, baseUrl: %q}\n", url))
	masked := strings.NewReplacer(url, "https://shop.example", strings.TrimPrefix(url, "http://"), "shop.example")
	c := cast.New("A chain fails half-way, is corrected and resumed: the card is charged once", castColumns)
	show := func(command string) (shown string) {
		shown = terminalOutput(t, dir, command)
		id := runInOutput.FindString(shown)
		mask := func(text string) string { return runInOutput.ReplaceAllString(masked.Replace(text), castRun) }
		c.Command(mask(command), castTimes.ReplaceAllString(mask(shown), "3 ms  "))
		return id
	}
	show("cat ship.json")
	c.Command("# The carrier dlh does not exist. The card is charged before anybody knows.", "")
	run := show("onecall run ship.json")
	if run == "" {
		t.Fatal("the output of the first run lacks the id of its run")
	}
	c.BeginHere()
	show("sed -i s/dlh/dhl/ ship.json")
	show("onecall resume " + run + " ship.json --trace summary")
	c.Command("# The card was charged once.", "")
	if n := charges.Load(); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	transcript.File(t, "../../docs/images/resume.svg", c.SVG())
}

// castRun replaces the id of the run, which varies; castTimes matches times of steps, which take seconds on a busy machine.
const castRun = "run_q7fm2zk3vdx6ahy4tn5wcbeup2"

var castTimes = regexp.MustCompile(`[0-9.]+ m?s +`)

var runInOutput = regexp.MustCompile(`run_[a-z2-7]{26}`)

// castServer is the shop. It does not know the carrier dlh.
func castServer(t *testing.T, charges *atomic.Int64) (url string) {
	mux := http.NewServeMux()
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	mux.Handle("GET /order/1042", answer(http.StatusOK, `{"card":"card_8","cents":4900,"address":"Berlin"}`))
	mux.HandleFunc("POST /charge", func(w http.ResponseWriter, r *http.Request) {
		charges.Add(1)
		answer(http.StatusCreated, `{"id":"charge_17"}`)(w, r)
	})
	mux.HandleFunc("POST /parcel", func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(body), "dlh") {
			answer(http.StatusBadRequest, `{"message":"no carrier dlh, there are dhl and ups"}`)(w, r)
			return
		}
		answer(http.StatusCreated, `{"tracking":"JD0146"}`)(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// terminalOutput returns the output of a command at a terminal of castColumns.
func terminalOutput(t *testing.T, dir, line string) string {
	t.Helper()
	programs := filepath.Join(dir, "bin")
	self := clitest.Command(t, dir)
	if err := os.Mkdir(programs, 0o755); err == nil {
		if err := os.Symlink(self.Path, filepath.Join(programs, "onecall")); err != nil {
			t.Fatal(err)
		}
	}
	line = fmt.Sprintf("stty cols %d; %s", castColumns, line)
	cmd := exec.CommandContext(t.Context(), "script", "-qec", line, filepath.Join(t.TempDir(), "typescript"))
	path := "PATH=" + programs + ":" + cmp.Or(os.Getenv("PATH"), "/bin")
	cmd.Dir, cmd.Env = dir, slices.Concat(self.Env, []string{"TERM=xterm-256color", "NO_COLOR=", path})
	shown, err := cmd.Output()
	if err != nil && clitest.ExitCode(err) != "1" {
		t.Fatalf("%s: %v\n%s", line, err, shown)
	}
	return strings.ReplaceAll(string(shown), "\r\n", "\n")
}
