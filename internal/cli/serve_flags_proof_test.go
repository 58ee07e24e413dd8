//go:build unix

package cli

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// toolNames are the names in a result of tools/list.
func toolNames(list gjson.Result) []string {
	var names []string
	for _, name := range list.Get("tools.#.name").Array() {
		names = append(names, name.String())
	}
	slices.Sort(names)
	return names
}

// TestSurfaceIsOneSetting: the flag, the configuration and a client's choice show the same tools of a server that lists some
// only to clients that can be asked, which this one cannot.
func TestSurfaceIsOneSetting(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	servers := map[string]server{"everything": npmServers(npmPackages(t), folder)["everything"]}
	config := func(name string, more map[string]any) string {
		all := map[string]any{"mcpServers": servers, "access": map[string]string{"http": "read_write"}}
		for key, value := range more {
			all[key] = value
		}
		return writeJSON(t, folder, name, all)
	}
	plain, flat := config("plain.json", nil), config("flat.json", map[string]any{"surface": "flat"})
	asks := []string{"trigger-sampling-request", "trigger-elicitation-request", "trigger-url-elicitation"}
	plainTools := []string{"echo", "get-env", "simulate-research-query"}
	overStdio := func(t *testing.T, config string, args ...string) []string {
		p := servePiped(t, config, args...)
		return untilListed(t, plainTools, asks, func() []string {
			p.write(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
			m, _ := p.answer(t, `"list"`)
			return toolNames(m.Get("result"))
		})
	}
	overHTTP := func(t *testing.T, query, config string, args ...string) []string {
		w := stateful(t, serveHTTP(t, config, args...).url+query)
		return untilListed(t, plainTools, asks, func() []string { return toolNames(w.call(t, "tools/list", nil)) })
	}
	ways := map[string]func(*testing.T) []string{
		"stdio, configuration": func(t *testing.T) []string { return overStdio(t, flat) },
		"stdio, flag":          func(t *testing.T) []string { return overStdio(t, plain, "--surface", "flat") },
		"HTTP, configuration":  func(t *testing.T) []string { return overHTTP(t, "", flat) },
		"HTTP, flag":           func(t *testing.T) []string { return overHTTP(t, "", plain, "--surface", "flat") },
		"HTTP, client":         func(t *testing.T) []string { return overHTTP(t, "?surface=flat", plain) },
	}
	lists := map[string][]string{}
	for way, list := range ways {
		t.Run(way, func(t *testing.T) { lists[way] = list(t) })
	}
	for way, list := range lists {
		if want := lists["stdio, configuration"]; !slices.Equal(list, want) {
			t.Errorf("%s:\n%q, by the configuration over stdio\n%q", way, list, want)
		}
	}
}

// untilListed lists until some tools are there and others are not: until its own session with the upstream has started, a
// client sees what the upstream lists to a client that can be asked.
func untilListed(t *testing.T, present, absent []string, list func() []string) []string {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		names := list()
		listed := func(tool string) bool { return slices.Contains(names, tool) }
		if !slices.ContainsFunc(present, func(tool string) bool { return !listed(tool) }) && !slices.ContainsFunc(absent, listed) {
			return names
		}
		if time.Since(began) > tooLong {
			t.Fatalf("%q are not all listed, or some of %q are: %q", present, absent, names)
		}
	}
}

// TestStatelessFlag: with --stateless also a client of a version with sessions gets none, and is served.
func TestStatelessFlag(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{}), "--stateless")
	w := &wire{url: s.url, client: httpClient(t)}
	r := w.send(t, http.MethodPost, []byte(initialize), nil)
	if got := r.answer().Get("result.protocolVersion").String(); got != statefulVersion {
		t.Errorf("the version %q: %d %s", got, r.status, r.body)
	}
	if id := r.header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("it has the session %q", id)
	}
	w.version = statefulVersion
	alive(t, w, stateless(t, s.url))
}

// TestKeepAlive: a client that answers pings stays, and one that leaves three unanswered is gone: the server ends.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	p := servePiped(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{}), "--keep-alive", "1s") // a busy machine may take a while over an answer
	for range 4 {
		m := p.read(t)
		if m.Get("method").String() != "ping" {
			t.Fatalf("not a ping: %s", m.Raw)
		}
		p.write(t, `{"jsonrpc":"2.0","id":`+m.Get("id").Raw+`,"result":{}}`)
	}
	watchdog := time.AfterFunc(tooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	rest, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	if pings := strings.Count(string(rest), `"method":"ping"`); pings < 3 {
		t.Errorf("it ends after %d pings: %s", pings, rest)
	}
	p.finish(t)
}

// TestSlowReaderIsLetGo: a client that takes nothing of a large answer has its connection ended, though it asks for nothing more and
// does not leave.
func TestSlowReaderIsLetGo(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{"budget": map[string]int{"maxTotalTokens": 0}}))
	w := stateless(t, s.url)
	const size = 16 << 20 // more than the buffers between the two hold
	text := w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": map[string]any{"lite": true, "steps": []any{
		map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "map(1..16384, text)", "vars": map[string]string{"text": strings.Repeat("ab ", size/16384/3)}}}}}})
	c := dial(t, s.url)
	if _, err := c.Write(w.raw(t, text, len(text))); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Write([]byte("G")); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Logf("let go after %v: %v", time.Since(began).Round(time.Second), err)
			break
		}
		if time.Since(began) > tooLong {
			t.Fatalf("its connection is still open: %s", s.stderr)
		}
	}
	alive(t, w)
}
