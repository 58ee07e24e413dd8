//go:build unix

package temporal_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// callers configures the tokens of a server's callers, each the same as its name: ann may write, bob may only read.
const callers = `access:
  tokens:
    - {name: ann, sha256: %q, tier: read_write, functions: [http.*]}
    - {name: bob, sha256: %q, tier: read}
`

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// httpServer is a process that serves MCP clients over HTTP.
type httpServer struct {
	*client
	url string
}

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)

// serve starts a server and waits until clients can connect.
func (s *stack) serve(t testing.TB) *httpServer {
	t.Helper()
	c := &client{cmd: s.command(t, "serve", "--http", "127.0.0.1:0"), ended: make(chan struct{})}
	errs, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	url := make(chan string, 1)
	go func() {
		defer close(c.ended)
		lines := bufio.NewScanner(io.TeeReader(errs, &c.stderr))
		for lines.Scan() {
			if address := listening.FindString(lines.Text()); address != "" {
				url <- address
			}
		}
		_ = c.cmd.Wait()
	}()
	select {
	case at := <-url:
		return &httpServer{c, at}
	case <-c.ended:
	case <-time.After(clitest.TooLong):
	}
	t.Fatalf("the server did not start to listen: %s", &c.stderr)
	return nil
}

// traceID is the trace of the clients.
const traceID = "0af7651916cd43dd8448eb211c80319c"

// ask calls a tool as the caller with a token, and returns its text.
func (s *httpServer) ask(t testing.TB, token, tool, args string) gjson.Result {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":`+
		`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"traceparent":"00-%s-b7ad6b7169203331-01"}}}`, tool, args, traceID)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": "Bearer " + token, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.Index(text, []byte("data: ")); at >= 0 {
		text = text[at+len("data: "):]
	}
	answer := gjson.GetBytes(text, "result.content.0.text").Str
	if !json.Valid([]byte(answer)) {
		t.Fatalf("%s: status %d, no JSON: %s", tool, response.StatusCode, text)
	}
	return gjson.Parse(answer)
}

// awaitEnd asks a server for a run until the run has ended or waits for approval, and returns the report on it and its answer.
func (s *httpServer) awaitEnd(t testing.TB, token, run string) (report, answer gjson.Result) {
	t.Helper()
	polltest.Until(t, "the run has an answer", func() bool {
		report = s.ask(t, token, "info", `{"run":"`+run+`"}`)
		return report.Get("fetch").Exists()
	})
	return report, s.ask(t, token, "chain", report.Get("fetch").Raw)
}

// TestServedRuns: a chain that a client sends to a server goes on after the server and its worker are killed, on another worker. Another
// server gives its answer to the caller, and to no other caller.
func TestServedRuns(t *testing.T) {
	t.Parallel()
	s := newStack(t, fmt.Sprintf(callers, digest("ann"), digest("bob")))
	s.variables = append(s.variables, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL+"/spans") // tracing is on; the spans are lost
	reached, release := s.hold()
	first, worker := s.serve(t), s.startWorker(t)
	const chain = `{"steps":[{"fn":"http.write","args":{"id":"before"}},{"fn":"http.read","args":{"id":"poison"}},` +
		`{"fn":"http.write","args":{"id":"after"}}],"async":true,"return":"$2.id"}`
	begun := first.ask(t, "ann", "chain", chain)
	run := begun.Get("run").Str
	if begun.Get("status").Str != "running" || run == "" {
		t.Fatalf("got %s, want running with an id of the run", begun)
	}
	<-reached
	first.kill()
	worker.kill()
	second := s.serve(t)
	if report := second.ask(t, "ann", "info", `{"run":"`+run+`"}`); report.Get("status").Str != "running" {
		t.Errorf("status of a run without a worker: %s, want running", report)
	}
	close(release)
	s.startWorker(t)
	report, answer := second.awaitEnd(t, "ann", run)
	if report.Get("status").Str != "ok" || answer.Get("result").Str != "after" || answer.Get("steps.0.status").Str != "reused" {
		t.Errorf(`after the restarts: got %s: %s, want ok, the result "after" and a reused step`, report, answer)
	}
	if s.writes("before") != 1 || s.writes("after") != 1 {
		t.Errorf("%d and %d writes, want 1 each", s.writes("before"), s.writes("after"))
	}
	if trace := s.traceOf("poison"); !strings.Contains(trace, traceID) {
		t.Errorf("the worker's calls have the trace %q, want %s", trace, traceID)
	}
	for tool, args := range map[string]string{"info": `{"run":"` + run + `"}`, "chain": `{"resume":"` + run + `"}`} {
		if other := second.ask(t, "bob", tool, args); other.Get("error.code").Str != "token_expired" {
			t.Errorf("%s of another caller: got %s, want token_expired", tool, other)
		}
	}
}

// TestServedRights: a worker acts for a server's caller with no more than the caller's rights.
func TestServedRights(t *testing.T) {
	t.Parallel()
	s := newStack(t, fmt.Sprintf(callers, digest("ann"), digest("bob")))
	server := s.serve(t)
	write := `{"steps":[{"fn":"http.write","args":{"id":"bob"}}],"async":true}`
	if answer := server.ask(t, "bob", "chain", write); answer.Get("error.faults.0.code").Str != "unknown_function" {
		t.Errorf("the write of a caller that may only read: got %s, want unknown_function", answer)
	}
	// What bob began waits for a worker, whose configuration lets him read less than the server's.
	begun := server.ask(t, "bob", "chain", `{"steps":[{"fn":"http.read","args":{"id":"a"}}],"async":true}`)
	clitest.Write(t, s.home, "onecall.yaml", strings.Replace(readFile(t, s.home, "onecall.yaml"), "\naccess:",
		"\nfunctions: {http.read: {tier: admin}}\naccess:", 1))
	s.startWorker(t)
	report, answer := server.awaitEnd(t, "bob", begun.Get("run").Str)
	if report.Get("status").Str != "failed" || answer.Get("error.faults.0.code").Str != "unknown_function" {
		t.Errorf("the rights of the caller in the worker: got %s: %s, want unknown_function", report, answer)
	}
}

// TestServedApproval: the answer says that a run waits for approval, and the run continues at workers once its caller approves.
func TestServedApproval(t *testing.T) {
	t.Parallel()
	s := newStack(t, "approve: write\n"+fmt.Sprintf(callers, digest("ann"), digest("bob")))
	server := s.serve(t)
	s.startWorker(t)
	begun := server.ask(t, "ann", "chain", `{"steps":[{"fn":"http.write","args":{"id":"a"}}],"async":true,"key":"monday"}`)
	report, answer := server.awaitEnd(t, "ann", begun.Get("run").Str)
	if report.Get("status").Str != "waiting" || answer.Get("error.code").Str != "approval_required" || s.writes("a") != 0 {
		t.Fatalf("got %s: %s, want waiting, approval_required and no write", report, answer)
	}
	approved := server.ask(t, "ann", "chain", `{"resume":"`+answer.Get("resume").Str+`","approve":"`+answer.Get("approve").Str+`"}`)
	if approved.Get("run").Str != begun.Get("run").Str {
		t.Errorf("approve begins %s, want it to continue %s", approved, begun)
	}
	if report, answer = server.awaitEnd(t, "ann", approved.Get("run").Str); report.Get("status").Str != "ok" || s.writes("a") != 1 {
		t.Errorf("after the approval: got %d writes, want 1 and ok: %s: %s", s.writes("a"), report, answer)
	}
	other := server.ask(t, "bob", "chain", `{"steps":[{"expr":"1"}],"async":true,"key":"monday"}`)
	if other.Get("run").Str == approved.Get("run").Str {
		t.Errorf("another caller with the same key gets the same run: %s", other)
	}
}

func readFile(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
