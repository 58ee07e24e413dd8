//go:build e2e && unix

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestReloadTokens checks that a removed token is refused at once and a new one accepted. Other tokens must remain valid, also one that
// approves for the removed one.
func TestReloadTokens(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	entry := func(name, token string) string {
		return fmt.Sprintf("{name: %s, sha256: %q, tier: read}", name, tokenHash(token))
	}
	access := func(entries ...string) string {
		return clitest.Write(t, folder, "onecall.yaml", "access: {tokens: ["+strings.Join(entries, ", ")+"]}\n")
	}
	const first, second, third = "oc_first-token-of-a-client", "oc_second-token-of-a-client", "oc_third-token-of-a-client"
	approver := strings.Replace(entry("b", second), "tier: read", "tier: read, console: approve, approves: [a]", 1)
	s := serveHTTP(t, access(entry("a", first), approver))
	status := func(token string) int {
		w := &rawClient{url: s.url, client: httpClient(t), version: statelessVersion}
		return w.send(t, http.MethodPost, w.message(t, "1", "tools/list", nil),
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }).status
	}
	want := func(one, two, three int) {
		t.Helper()
		if got := [3]int{status(first), status(second), status(third)}; got != [3]int{one, two, three} {
			t.Errorf("statuses %v, want %v: %s", got, [3]int{one, two, three}, s.stderr)
		}
	}
	want(200, 200, 401)
	access(approver, entry("c", third))
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logReloaded, 1)
	want(401, 200, 200)
	waitForLog(t, s.stderr, `there is no token "a"`, 1)
	if log := s.stderr.String(); strings.Contains(log, tokenHash(third)) {
		t.Errorf("the log shows a hash: %s", log)
	}
}

// startingForever has a server in mcpServers that never finishes starting. It exits when its input ends.
const startingForever = "mcpServers: {mute: {command: sh, args: [-c, 'cat >/dev/null'], startTimeoutMs: 600000}}\n"

// TestRightsChangeAtOnce checks that a removed token is refused before new sources of the same change have started. Other clients must be
// served meanwhile.
func TestRightsChangeAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const first, second = "oc_first-token-of-a-client", "oc_second-token-of-a-client"
	entry := func(token string) string {
		return fmt.Sprintf("{name: %s, sha256: %q, tier: admin}", token, tokenHash(token))
	}
	s := serveHTTP(t, clitest.Write(t, folder, "onecall.yaml", "access: {tokens: ["+entry(first)+", "+entry(second)+"]}\n"))
	removed, other := stateless(t, s.url).with(first), stateless(t, s.url).with(second)
	list := removed.message(t, "1", "tools/list", nil)
	if r := removed.send(t, http.MethodPost, list, nil); r.status != http.StatusOK {
		t.Fatalf("before the change: status %d, want 200: %s", r.status, r.body)
	}
	clitest.Write(t, folder, "onecall.yaml", "access: {tokens: ["+entry(second)+"]}\n"+startingForever)
	polltest.Until(t, "the token is refused", func() bool {
		return removed.send(t, http.MethodPost, list, nil).status == http.StatusUnauthorized
	}, s.stderr)
	if text, _ := other.tool(t, "info", map[string]any{}); !strings.Contains(text, "mute") {
		t.Errorf("info lacks the source mute: %s", text)
	}
}

// TestHiddenAtOnce checks that a function that a new configuration hides disappears from the list at once, whatever else changes.
func TestHiddenAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := serveHTTP(t, clitest.Write(t, folder, "onecall.yaml", "lite: true\n"))
	w := stateless(t, s.url+"?surface=flat")
	listed := func() bool {
		return strings.Contains(string(w.send(t, http.MethodPost, w.message(t, "1", "tools/list", nil), nil).body), "fs_find")
	}
	if !listed() {
		t.Fatalf("fs_find is not listed before the change: %s", s.stderr)
	}
	clitest.Write(t, folder, "onecall.yaml", "functions: {fs.*: {tier: admin}}\n"+startingForever)
	polltest.Until(t, "fs_find is not listed", func() bool { return !listed() }, s.stderr)
}

// TestReloadKeepsTokensRequired checks that a configuration without tokens is refused unless it sets access.http for local clients.
func TestReloadKeepsTokensRequired(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const token = "oc_token-of-a-client"
	s := serveHTTP(t, clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf("access: {tokens: [{name: a, sha256: %q}]}\n", tokenHash(token))))
	anonymous := stateless(t, s.url)
	list := anonymous.message(t, "1", "tools/list", nil)
	want := func(text string, statuses ...int) {
		t.Helper()
		for i, w := range []*rawClient{anonymous, anonymous.with(token)} {
			if r := w.send(t, http.MethodPost, list, nil); r.status != statuses[i] {
				t.Errorf("%s\nclient %d: status %d %s, want %d: %s", text, i, r.status, r.body, statuses[i], s.stderr)
			}
		}
	}
	for n, c := range []struct{ text, log string }{
		{"lite: true\n", "this would admit clients without tokens"},
		{"access: {limits: {calls: 5}}\n", "onecall.yaml:1:9: bad_request at /access: this would admit clients without tokens"},
		{"access:\n  http: admin\n  tokens:\n#   - {name: a}\n", "leave out tokens if no client has one"},
		{"access: {http: read, url: 'https://tools.example.com/mcp'}\n", "this setting is for clients on other machines"},
		{"access: {http: read, hosts: [localhost, tools.internal]}\n", "onecall.yaml:1:41: bad_request at /access/hosts/1: this setting is for clients"},
	} {
		clitest.Write(t, folder, "onecall.yaml", c.text)
		hangUp(t, s.cmd)
		waitForLog(t, s.stderr, logRefused, n+1)
		waitForLog(t, s.stderr, c.log, 1)
		want(c.text, http.StatusUnauthorized, http.StatusOK)
	}
	open := "access: {http: read, url: 'http://localhost:8080/mcp', hosts: [127.0.0.1, '[::1]:8080']}\n"
	clitest.Write(t, folder, "onecall.yaml", open)
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logReloaded, 1)
	waitForLog(t, s.stderr, `level=WARN msg="clients over HTTP no longer need a token" tier=read`, 1)
	want(open, http.StatusOK, http.StatusOK)
}

// TestReloadFaultyConfig checks that no fault says that settings of access are missing if another fault may have hidden them. Faults that
// cannot hide them are reported together with such a fault.
func TestReloadFaultyConfig(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const open = "this would admit clients without tokens"
	good := fmt.Sprintf("access:\n  tokens:\n    - {name: a, sha256: %q}\n", tokenHash("oc_token-of-a-client"))
	s := serveHTTP(t, clitest.Write(t, folder, "onecall.yaml", good))
	for n, c := range []struct {
		text, log string
		faults    int // 1: only the fault in log; 2: also the one about open access
	}{
		{good + "  - [broken\n", "bad_json: not YAML", 1},
		{good + "lite: \xff\n", "not UTF-8", 1},
		{good + strings.Repeat("#", config.MaxBytes), "limit_exceeded: the configuration has more than", 1},
		{"lite: true\n---\n" + good, "a file holds one document", 1},
		{"- access\n", "onecall.yaml:1:1: bad_request: must be an object", 1},
		{"access: some\n", "onecall.yaml:1:9: bad_request at /access: must be an object", 1},
		{"access: {tokens: some}\n", "onecall.yaml:1:18: bad_request at /access/tokens: must be a list", 1},
		{"acces" + good[len("access"):], `unknown key "acces"`, 1},
		{"budget: {maxSteps: lots}\n", "onecall.yaml:1:20: bad_request at /budget/maxSteps: must be a whole number", 2},
	} {
		before := strings.Count(s.stderr.String(), open)
		clitest.Write(t, folder, "onecall.yaml", c.text)
		hangUp(t, s.cmd)
		waitForLog(t, s.stderr, logRefused, n+1)
		waitForLog(t, s.stderr, c.log, 1)
		reported := strings.Count(s.stderr.String(), open) - before
		refusals := strings.SplitAfter(s.stderr.String(), `msg="configuration refused"`)
		if last := refusals[len(refusals)-1]; reported != c.faults-1 || !strings.Contains(last, fmt.Sprintf(" faults=%d\n", c.faults)) {
			t.Errorf("%.60q: %d messages about open access, want %d, and %d faults in all: %s", c.text, reported, c.faults-1, c.faults, last)
		}
	}
	configFile := clitest.Write(t, t.TempDir(), "onecall.yaml", good+"fs: {rot: .}\n  - [broken\n")
	record := filepath.Join(t.TempDir(), "calls.jsonl")
	out, err := clitest.Command(t, folder, "serve", "--http", "127.0.0.1:0", "--record", record, "--config", configFile).CombinedOutput()
	if clitest.ExitCode(err) != "4" || strings.Count(string(out), "onecall.yaml:") != 1 {
		t.Errorf("serve: %v, want exit status 4 and one fault: %s", err, out)
	}
	if _, err := os.Stat(record); err == nil {
		t.Error("serve created a recording although its configuration is faulty")
	}
}

// TestReloadResultRights checks that a token can read its stored results unless its rights are less than when they were stored.
func TestReloadResultRights(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const token = "oc_token-of-a-client"
	access := func(n int, rights string) string { // n makes maxTotalTokens differ, which shows when the configuration is served
		return clitest.Write(t, folder, "onecall.yaml",
			fmt.Sprintf("budget: {maxTotalTokens: %d}\naccess: {tokens: [{name: a, sha256: %q, %s}]}\n", 5000+n, tokenHash(token), rights))
	}
	s := serveHTTP(t, access(0, "tier: read_write"))
	w := stateless(t, s.url).with(token)
	text, _ := w.tool(t, "chain", map[string]any{"lite": true,
		"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1..20000"}}}})
	stored := gjson.Get(text, "continuation_token").Str
	for n, c := range []struct{ rights, want string }{
		{"tier: admin", ""}, {"tier: read", "token_expired"}, {"tier: read_write, functions: ['expr.*']", "token_expired"},
		{"tier: read_write", ""},
	} {
		access(n+1, c.rights)
		hangUp(t, s.cmd)
		polltest.Until(t, c.rights+" is served", func() bool {
			r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", map[string]any{"name": "info", "arguments": map[string]any{}}), nil)
			if err != nil {
				t.Fatal(err)
			}
			// While the rights change, a request may be answered with an error: then the limit is 0, and the test tries again.
			return gjson.Get(r.answer().Get("result.content.0.text").Str, "limits.maxTotalTokens").Int() == int64(5000+n+1)
		}, s.stderr)
		if text, _ := w.tool(t, "chain", map[string]any{"continuation_token": stored, "mode": "query",
			"query": "$result[0]"}); gjson.Get(text, "error.code").Str != c.want {
			t.Errorf("with %s: %s, want %q: %s", c.rights, text, c.want, s.stderr)
		}
	}
}
