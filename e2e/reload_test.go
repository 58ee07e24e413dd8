//go:build e2e && unix

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

const (
	logReloaded = " is loaded\n"
	logRefused  = " is refused, and the former configuration stays in use"
)

// hangUp sends a server the signal to reload its configuration.
func hangUp(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// upstreamOf returns the entry of a stdio MCP server: onecall itself, with the configuration NAME.own.yaml.
func upstreamOf(t testing.TB, folder, name string) map[string]any {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(folder, name+".own.yaml")
	if err := os.WriteFile(config, []byte("surface: flat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"command": path, "args": []string{"serve", "--config", config},
		"env": map[string]string{clitest.AsCommand: "1", "GORACE": clitest.NoRaceDelay, "HOME": folder, "XDG_CACHE_HOME": folder}}
}

// children returns the child processes of a process, by their last arguments.
func children(t testing.TB, parent int) map[string]int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	processes := map[string]int{}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		stat, _ := os.ReadFile(filepath.Join(folder, "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) < 2 || fields[1] != strconv.Itoa(parent) || fields[0] == "Z" {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		pid, _ := strconv.Atoi(filepath.Base(folder))
		processes[filepath.Base(args[len(args)-1])] = pid
	}
	return processes
}

// TestReload changes a server's configuration. Unchanged sources must continue, running calls must end with the old configuration, and
// stored results must remain.
func TestReload(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	arrived, released := make(chan struct{}, 4), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-released
		}
		fmt.Fprint(w, "ok")
	}))
	t.Cleanup(service.Close)
	t.Cleanup(release)
	settings := map[string]any{
		"surface": "flat",
		"mcpServers": map[string]any{"stays": upstreamOf(t, folder, "stays"), "restarts": upstreamOf(t, folder, "restarts"),
			"goes": upstreamOf(t, folder, "goes")},
		"http":      map[string]any{"allow": []string{strings.TrimPrefix(service.URL, "http://")}},
		"functions": map[string]any{"expr.eval": map[string]any{"defaults": map[string]any{"vars": map[string]any{"x": 1}}}},
	}
	p := startStdioServer(t, writeJSON(t, folder, "onecall.json", map[string]any{"surface": "flat"}))
	writeJSON(t, folder, "onecall.json", settings)
	waitForLog(t, p.stderr, logReloaded, 1)
	p.write(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	m, _ := p.readAnswer(t, `"list"`)
	for _, name := range []string{"stays_chain", "restarts_chain", "goes_chain"} {
		if !strings.Contains(m.Raw, name) {
			t.Fatalf("%s is not listed: %s\n%s", name, m.Get("result.tools.#.name"), p.stderr)
		}
	}
	before := children(t, p.cmd.Process.Pid)
	p.write(t, `{"jsonrpc":"2.0","id":"large","method":"tools/call","params":{"name":"chain","arguments":{"lite":true,`+
		`"steps":[{"fn":"expr.eval","args":{"expression":"map(1..20000, ({id: #}))"}}]}}}`)
	m, _ = p.readAnswer(t, `"large"`)
	token := gjson.Get(m.Get("result.content.0.text").Str, "continuation_token").Str
	if token == "" {
		t.Fatalf("the answer to a large result is %s, want a probe", m.Raw)
	}
	p.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"chain","arguments":{"lite":true,`+
		`"steps":[{"fn":"http.get","args":{"url":"%[1]s/slow"}},`+
		`{"fn":"http.get","args":{"url":"%[1]s/${$0.status}"}},{"fn":"goes.chain","args":{"lite":true,"steps":[{"fn":"expr.eval",`+
		`"args":{"expression":"${$1.status} - 198"}}]}},{"fn":"expr.eval","args":{"expression":"x + ${$1.status}"}}],"return":["$3","$1.body"]}}}`, service.URL))
	await(t, arrived, "the call arrives")

	servers := settings["mcpServers"].(map[string]any)
	delete(servers, "goes")
	servers["restarts"].(map[string]any)["env"].(map[string]string)["NEW"] = "a-secret-password"
	servers["comes"] = upstreamOf(t, folder, "comes")
	delete(settings, "http")
	settings["functions"] = map[string]any{"expr.eval": map[string]any{"defaults": map[string]any{"vars": map[string]any{"x": 2}}}}
	writeJSON(t, folder, "onecall.json", settings)
	waitForLog(t, p.stderr, logReloaded, 2)
	if strings.Contains(p.stderr.String(), "a-secret-password") {
		t.Errorf("the log shows a secret: %s", p.stderr)
	}

	var others []gjson.Result
	polltest.Until(t, "the tools are those of the configuration", func() bool {
		p.write(t, `{"jsonrpc":"2.0","id":"again","method":"tools/list"}`)
		m, more := p.readAnswer(t, `"again"`)
		others = append(others, more...)
		return strings.Contains(m.Raw, "comes_chain") && !strings.Contains(m.Raw, "goes_chain")
	}, p.stderr)
	for !strings.Contains(fmt.Sprint(others), "notifications/tools/list_changed") {
		others = append(others, p.read(t)) // the list_changed notification may arrive after the answer
	}
	p.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"fetch","method":"tools/call","params":{"name":"chain",`+
		`"arguments":{"lite":true,"continuation_token":%q,"mode":"paginated","page":2,"page_size":1}}}`, token))
	if m, _ = p.readAnswer(t, `"fetch"`); gjson.Get(m.Get("result.content.0.text").Str, "items.0.id").Int() != 2 {
		t.Errorf("page 2 of a result stored before the reload: got %s, want item 2", m.Raw)
	}
	p.write(t, p.chainRequest(`"new"`, "x"))
	if m, _ = p.readAnswer(t, `"new"`); m.Get("result.content.0.text").Str != "2" {
		t.Errorf("a new call uses the old default: %s, want 2", m.Raw)
	}
	p.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"denied","method":"tools/call","params":{"name":"chain",`+
		`"arguments":{"steps":[{"fn":"http.get","args":{"url":"%s/"}}]}}}`, service.URL))
	if m, _ = p.readAnswer(t, `"denied"`); gjson.Get(m.Get("result.content.0.text").Str, "error.code").Str != "denied" {
		t.Errorf("a host that is no longer allowed: %s, want denied", m.Raw)
	}

	during := children(t, p.cmd.Process.Pid)
	if during["stays.own.yaml"] != before["stays.own.yaml"] || before["stays.own.yaml"] == 0 {
		t.Errorf("got processes %v, then %v, want the same for the unchanged upstream", before, during)
	}
	if during["goes.own.yaml"] == 0 {
		t.Errorf("an upstream that a running chain needs has ended: %v", during)
	}
	release()
	m, _ = p.readAnswer(t, `"slow"`)
	if got := m.Get("result.content.0.text").Str; got != `[201,"ok"]` {
		t.Errorf("the running chain did not use the old configuration: %s, want [201,\"ok\"]", m.Raw)
	}
	polltest.Until(t, "the upstreams that are no longer used end", func() bool {
		now := children(t, p.cmd.Process.Pid)
		return now["goes.own.yaml"] == 0 && now["restarts.own.yaml"] != before["restarts.own.yaml"] && len(now) == len(before)
	}, p.stderr)
	p.finish(t)
}

// TestReloadRefused checks that a configuration with faults is reported once, and again on request. It must start nothing, and the old
// one must stay in use.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good := "functions: {expr.eval: {defaults: {vars: {x: 1}}}}\n"
	config := clitest.Write(t, folder, "onecall.yaml", good)
	p := startStdioServer(t, config)
	p.checkServes(t)
	path, _ := os.Executable()
	clitest.Write(t, folder, "onecall.yaml", "groups: {search: [a]}\nmcpServers: {new: {command: "+path+", args: [serve], env: "+
		"{PASSWORD: hidden-password}}}\nsurfaces: flat\n")
	waitForLog(t, p.stderr, logRefused, 1)
	waitForLog(t, p.stderr, `onecall.yaml:3:1: unknown_field at /surfaces: unknown key "surfaces"`, 1) // the faults follow on their own lines
	if log := p.stderr.String(); strings.Contains(log, "hidden-password") {
		t.Errorf("the log shows a secret: %s", log)
	}
	if started := children(t, p.cmd.Process.Pid); len(started) > 0 {
		t.Errorf("the refused configuration started %v, want nothing", started)
	}
	p.write(t, p.chainRequest(`"old"`, "x"))
	if m, _ := p.readAnswer(t, `"old"`); m.Get("result.content.0.text").Str != "1" {
		t.Errorf("got %s, want 1: the old configuration is no longer in use", m.Raw)
	}
	time.Sleep(3 * time.Second) // nothing must arrive in this time
	if n := strings.Count(p.stderr.String(), "unknown_field"); n != 1 {
		t.Errorf("the fault is logged %d times, want 1: %s", n, p.stderr)
	}
	hangUp(t, p.cmd) // a hangup asks for the report again
	waitForLog(t, p.stderr, logRefused, 2)
	for i, test := range []struct {
		change func()
		want   string
	}{
		{func() { _ = os.Remove(config) }, "onecall.yaml cannot be read"},
		{func() { clitest.Write(t, folder, "onecall.yaml", " \n") }, "onecall.yaml is empty"},
		{func() { _ = os.Remove(config); _ = os.Mkdir(config, 0o700) }, "onecall.yaml is not a regular file"},
	} {
		test.change()
		waitForLog(t, p.stderr, test.want, 1)
		if p.checkServes(t); i == 0 {
			hangUp(t, p.cmd)
			waitForLog(t, p.stderr, test.want, 2)
		}
	}
	_ = os.Remove(config)
	clitest.Write(t, folder, "onecall.yaml", strings.Replace(good, "x: 1", "x: 7", 1))
	waitForLog(t, p.stderr, logReloaded, 1)
	p.write(t, p.chainRequest(`"fixed"`, "x"))
	if m, _ := p.readAnswer(t, `"fixed"`); m.Get("result.content.0.text").Str != "7" {
		t.Errorf("the corrected configuration is not in use: %s, want 7", m.Raw)
	}
	p.finish(t)
}

// TestReloadLadder checks that a configuration with an enforced ladder is refused if a rung names no function.
func TestReloadLadder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ladder := "ladder: {mode: enforce, subject: path, rungs: [fs.grep, fs.list, fs.cat]}\n"
	p := startStdioServer(t, clitest.Write(t, folder, "onecall.yaml", ladder))
	p.checkServes(t)
	clitest.Write(t, folder, "onecall.yaml", "functions: {expr.eval: {hide: true}}\n"+strings.Replace(ladder, "fs.list", "fs.lits", 1))
	waitForLog(t, p.stderr, logRefused, 1)
	waitForLog(t, p.stderr, `onecall.yaml:2:57: bad_request at /ladder/rungs/1: "fs.lits" names no function`, 1)
	p.write(t, p.chainRequest(`"old"`, "7"))
	if m, _ := p.readAnswer(t, `"old"`); m.Get("result.content.0.text").Str != "7" {
		t.Errorf("got %s, want 7: the old configuration is no longer in use", m.Raw)
	}
	p.finish(t)
}

// TestReloadDocuments checks that a service's document is loaded again when it, or a file that it refers to, changes. A faulty
// document must leave the service as it was.
func TestReloadDocuments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	document := func(operation string) {
		clitest.Write(t, folder, "api.yaml", "openapi: 3.0.3\ninfo: {title: t, version: '1'}\nservers: [{url: "+
			"'http://127.0.0.1:1'}]\npaths:\n  /things:\n    get: {summary: "+operation+
			", parameters: [{name: q, in: query, schema: {$ref: 'parts.yaml#/q'}}], responses: {'200': {description: ok}}}\n")
	}
	document("first words")
	clitest.Write(t, folder, "parts.yaml", "q: {type: string, description: before}\n")
	p := startStdioServer(t, clitest.Write(t, folder, "onecall.yaml", "openapi: {api: {spec: api.yaml}}\nsurface: flat\n"))
	lists := func(what string) bool {
		p.write(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
		m, _ := p.readAnswer(t, `"list"`)
		return strings.Contains(m.Raw, what)
	}
	if !lists("before") || !lists("first words") {
		t.Fatalf("the service is not listed: %s", p.stderr)
	}
	clitest.Write(t, folder, "parts.yaml", "q: {type: string, description: after}\n")
	waitForLog(t, p.stderr, logReloaded, 1)
	if !lists(`"after"`) {
		t.Errorf("a changed file that the document refers to was not loaded: %s", p.stderr)
	}
	clitest.Write(t, folder, "api.yaml", "openapi: 3.0.3\npaths: [\n")
	waitForLog(t, p.stderr, logRefused, 1)
	if !lists(`"after"`) {
		t.Errorf("a faulty document removed its service: %s", p.stderr)
	}
	document("second words")
	waitForLog(t, p.stderr, logReloaded, 2)
	if !lists("second words") {
		t.Errorf("the corrected document was not loaded: %s", p.stderr)
	}
	p.finish(t)
}
