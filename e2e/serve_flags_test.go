//go:build e2e && unix

package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// toolNames returns the names in a result of tools/list.
func toolNames(list gjson.Result) []string {
	var names []string
	for _, name := range list.Get("tools.#.name").Array() {
		names = append(names, name.String())
	}
	slices.Sort(names)
	return names
}

// TestSurfaceIsOneSetting checks that the flag, the configuration and a client's choice show the same tools. The upstream lists some
// tools only to clients that support elicitation, which this one does not.
func TestSurfaceIsOneSetting(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	servers := map[string]server{"everything": npmServers(npmPackages(t), folder)["everything"]}
	config := func(name string, extra map[string]any) string {
		content := map[string]any{"mcpServers": servers, "access": map[string]string{"http": "read_write"}}
		for key, value := range extra {
			content[key] = value
		}
		return writeJSON(t, folder, name, content)
	}
	plain, flat := config("plain.json", nil), config("flat.json", map[string]any{"surface": "flat"})
	absentTools := []string{"trigger-sampling-request", "trigger-elicitation-request", "trigger-url-elicitation"}
	plainTools := []string{"echo", "get-env", "simulate-research-query"}
	overStdio := func(t *testing.T, config string, args ...string) []string {
		p := startStdioServer(t, config, args...)
		return waitForTools(t, plainTools, absentTools, func() []string {
			p.write(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
			m, _ := p.readAnswer(t, `"list"`)
			return toolNames(m.Get("result"))
		})
	}
	overHTTP := func(t *testing.T, query, config string, args ...string) []string {
		w := stateful(t, serveHTTP(t, config, args...).url+query)
		return waitForTools(t, plainTools, absentTools, func() []string { return toolNames(w.call(t, "tools/list", nil)) })
	}
	settings := map[string]func(*testing.T) []string{
		"stdio, configuration": func(t *testing.T) []string { return overStdio(t, flat) },
		"stdio, flag":          func(t *testing.T) []string { return overStdio(t, plain, "--surface", "flat") },
		"HTTP, configuration":  func(t *testing.T) []string { return overHTTP(t, "", flat) },
		"HTTP, flag":           func(t *testing.T) []string { return overHTTP(t, "", plain, "--surface", "flat") },
		"HTTP, client":         func(t *testing.T) []string { return overHTTP(t, "?surface=flat", plain) },
	}
	lists := map[string][]string{}
	for setting, list := range settings {
		t.Run(setting, func(t *testing.T) { lists[setting] = list(t) })
	}
	for setting, list := range lists {
		if want := lists["stdio, configuration"]; !slices.Equal(list, want) {
			t.Errorf("%s:\n%q, want those of stdio, configuration:\n%q", setting, list, want)
		}
	}
}

// waitForTools lists the tools until those of present are listed and those of absent are not. Until its own session with the upstream has
// started, a client sees the tools for clients that support elicitation.
func waitForTools(t *testing.T, present, absent []string, list func() []string) []string {
	t.Helper()
	var names []string
	ctx, cancel := context.WithTimeout(t.Context(), clitest.TooLong)
	defer cancel()
	if !polltest.Try(ctx, func() bool {
		names = list()
		listed := func(tool string) bool { return slices.Contains(names, tool) }
		return !slices.ContainsFunc(present, func(tool string) bool { return !listed(tool) }) && !slices.ContainsFunc(absent, listed)
	}) {
		t.Fatalf("want all of %q and none of %q, got %q", present, absent, names)
	}
	return names
}

// TestStatelessFlag checks that with --stateless clients are served and get no session.
func TestStatelessFlag(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{}), "--stateless")
	w := &rawClient{url: s.url, client: httpClient(t)}
	r := w.send(t, http.MethodPost, []byte(initialize), nil)
	if got := r.answer().Get("result.protocolVersion").String(); got != statefulVersion {
		t.Errorf("got the version %q, want %q: %d %s", got, statefulVersion, r.status, r.body)
	}
	if id := r.header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("the client got the session %q, want none", id)
	}
	w.version = statefulVersion
	checkServes(t, w, stateless(t, s.url))
}

// TestKeepAlive checks that the server serves a client that answers pings, and ends after three unanswered pings.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	p := startStdioServer(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{}), "--keep-alive",
		"1s") // a busy machine may need a while to answer
	for range 4 {
		m := p.read(t)
		if m.Get("method").String() != "ping" {
			t.Fatalf("got %s, want a ping", m.Raw)
		}
		p.write(t, `{"jsonrpc":"2.0","id":`+m.Get("id").Raw+`,"result":{}}`)
	}
	watchdog := time.AfterFunc(clitest.TooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	rest, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	if pings := strings.Count(string(rest), `"method":"ping"`); pings < 3 {
		t.Errorf("the server ended after %d unanswered pings, want 3: %s", pings, rest)
	}
	p.finish(t)
}

// TestSlowReaderDisconnected checks that the server closes the connection of a client that does not read a large answer.
func TestSlowReaderDisconnected(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{"budget": map[string]int{"maxTotalTokens": 0}}))
	w := stateless(t, s.url)
	const size = 16 << 20 // larger than the buffers between client and server
	text := w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": map[string]any{"lite": true, "steps": []any{
		map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "map(1..16384, text)",
			"vars": map[string]string{"text": strings.Repeat("ab ", size/16384/3)}}}}}})
	c := dial(t, s.url)
	if _, err := c.Write(w.postRaw(t, text, len(text))); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the connection is closed", func() bool { // a client that does not read notices that when it writes
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := c.Write([]byte("G"))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}, s.stderr)
	checkServes(t, w)
}
