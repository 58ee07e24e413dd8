//go:build e2e && unix

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

var metricsBase = regexp.MustCompile(`metrics on (http://[^/\s]+)/metrics`)

// statusOf requests a path at the address of the metrics and returns the status and the body. host is the header Host unless it is empty.
func (s *httpServer) statusOf(t *testing.T, path, host string) (int, string) {
	t.Helper()
	match := metricsBase.FindStringSubmatch(s.stderr.String())
	if match == nil {
		t.Fatalf("the log lacks the address of the metrics: %s", s.stderr)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, match[1]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// waitUntilReady waits until a starting server is ready.
func (s *httpServer) waitUntilReady(t *testing.T) {
	t.Helper()
	polltest.Until(t, "the server is ready", func() bool {
		code, _ := s.statusOf(t, "/readyz", "")
		return code == http.StatusOK
	}, s.stderr)
}

func TestMetricsAddress(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", ""), "--metrics", ":0")
	if _, failed := stateless(t, s.url).tool(t, "chain",
		map[string]any{"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}}}}); failed {
		t.Fatal("the chain failed")
	}
	s.waitUntilReady(t)
	for path, want := range map[string]string{"/metrics": "onecall_requests_total{", "/healthz": "ok\n", "/readyz": "ok\n"} {
		if code, body := s.statusOf(t, path, ""); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, want 200: %s", path, code, body)
		}
		if code, body := s.statusOf(t, path, "evil.example"); code != http.StatusForbidden || strings.Contains(body, "onecall_") {
			t.Errorf("%s for another host: status %d, want 403: %s", path, code, body)
		}
	}
	if code, _ := s.statusOf(t, "/mcp", ""); code != http.StatusNotFound {
		t.Errorf("/mcp at the address of the metrics: status %d, want 404", code)
	}
	if code, _ := s.statusOf(t, "/debug/pprof/", ""); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/: status %d, want 404", code)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusNotFound} {
		main := &rawClient{url: strings.TrimSuffix(s.url, "/mcp") + path, client: httpClient(t)}
		if r := main.send(t, http.MethodGet, nil, nil); r.status != want {
			t.Errorf("%s at the address of /mcp: status %d, want %d: %s", path, r.status, want, r.body)
		}
	}
}

// TestReady checks that /readyz names what is not ready, without secrets, and that a failed source does not keep the server from being
// ready.
func TestReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config string
		want   string // the expected answer; "": the server is ready
	}{
		"nothing":       {"", ""},
		"a source down": {"mcpServers: {gone: {command: no-such-program}}\n", ""},
		"starting": {"mcpServers: {mute: {command: sh, args: [-c, 'cat >/dev/null']}, deaf: {command: sh, args: [-c, 'cat " +
			">/dev/null']}}\n", "not ready: sources are starting: deaf, mute\n"},
		"journal": {"journal: {store: 'postgres://onecall:hunter2hunter2@127.0.0.1:1/runs', key: '${PATH}${PATH}'}\n",
			"not ready: the journal cannot be written, and calls that write are refused\n"},
		"results": {"results: {store: postgres}\njournal: {store: 'postgres://onecall:hunter2hunter2@127.0.0.1:1/runs', key: '${PATH}${PATH}'}\n",
			"not ready: the result store cannot be reached; the journal cannot be written, and calls that write are refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", test.config), "--metrics", "127.0.0.1:0")
			if test.want == "" {
				s.waitUntilReady(t)
			}
			code, body := s.statusOf(t, "/readyz", "")
			if test.want == "" && (code != http.StatusOK || body != "ok\n") || test.want != "" &&
				(code != http.StatusServiceUnavailable || body != test.want) {
				t.Errorf("/readyz: %d %q, want %q", code, body, cmp.Or(test.want, "ok\n"))
			}
			main := &rawClient{url: strings.TrimSuffix(s.url, "/mcp") + "/readyz", client: httpClient(t)}
			if r := main.send(t, http.MethodGet, nil, nil); (r.status == http.StatusOK) != (test.want == "") ||
				strings.Contains(string(r.body), "store") || strings.Contains(string(r.body), "journal") {
				t.Errorf("/readyz at the address of /mcp: got %d %s, want ready: %t, without the names of stores", r.status, r.body, test.want == "")
			}
			if log := s.stderr.String(); strings.Contains(log, "hunter2") {
				t.Errorf("a password is logged: %s", log)
			}
		})
	}
}

// TestLogFormat checks that in JSON every line is a record, including notices and warnings, and that requests are logged with the
// chain's id.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", "functions: {fs.gerp: {hide: true}}\n")
	s := serveHTTP(t, config, "--log-format", "json")
	s.url = strings.TrimSuffix(s.url, `"}`)
	if _, failed := stateless(t, s.url).tool(t, "chain",
		map[string]any{"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}}}}); failed {
		t.Fatal("the chain failed")
	}
	waitForLog(t, s.stderr, "fs.gerp", 1)
	waitForLog(t, s.stderr, `"kind":"chain"`, 1)
	levels := map[string]string{}
	for line := range strings.Lines(s.stderr.String()) {
		if !gjson.Valid(line) || !gjson.Get(line, "time").Exists() {
			t.Errorf("got %s, want a JSON record with a time", line)
		}
		levels[gjson.Get(line, "msg").String()] = gjson.Get(line, "level").String()
		if gjson.Get(line, "kind").Exists() && gjson.Get(line, "chain_id").String() == "" {
			t.Errorf("got request %s, want the id of its chain", line)
		}
	}
	for text, want := range map[string]string{"listening on": "INFO", "fs.gerp": "WARN"} {
		ok := false
		for msg, level := range levels {
			ok = ok || strings.Contains(msg, text) && level == want
		}
		if !ok {
			t.Errorf("no record of the level %s contains %q: %v", want, text, levels)
		}
	}
	quiet := serveHTTP(t, config, "--log-level", "warn")
	if _, failed := stateless(t, quiet.url).tool(t, "info", map[string]any{}); failed {
		t.Fatal("info failed")
	}
	quiet.end(t)
	if log := quiet.stderr.String(); strings.Contains(log, "level=INFO") {
		t.Errorf("--log-level warn logs INFO: %s", log)
	}
}

// TestLogFaults checks that each fault in a configuration is one record.
func TestLogFaults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := clitest.Write(t, folder, "onecall.yaml", "fs: {rot: .}\naccess: {tokens: [{name: ci, sha256: short}]}\n")
	cmd := clitest.Command(t, folder, "serve", "--log-format", "json", "--config", config)
	var log bytes.Buffer
	cmd.Stderr = &log
	if got := clitest.ExitCode(cmd.Run()); got != "4" {
		t.Errorf("exit status %s, want 4: %s", got, &log)
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		record := gjson.Parse(line)
		got = append(got, fmt.Sprintf("%s %s %d:%d %s", record.Get("level"), record.Get("code"), record.Get("line").Int(),
			record.Get("column").Int(), record.Get("at")))
	}
	if want := "ERROR unknown_field 1:6 /fs/rot|ERROR bad_request 2:38 /access/tokens/0/sha256"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q: %s", got, want, &log)
	}
}
