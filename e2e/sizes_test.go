//go:build e2e && unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// sizes measures what clients read, in tokens of o200k_base over the bytes that are sent, and checks the measures.
type sizes struct {
	*testing.T
	counter budget.Counter
}

func newSizes(t *testing.T) *sizes {
	counter, err := budget.NewCounter("o200k_base", 0)
	if err != nil {
		t.Fatal(err)
	}
	return &sizes{t, counter}
}

func (s *sizes) count(text string) int { return s.counter.Count([]byte(text), -1) }

// checkSize logs the size of a text, fails the test if it exceeds bound, and returns it.
func (s *sizes) checkSize(bound int, text, what string) int {
	s.Helper()
	n := s.count(text)
	s.Logf("%5d tokens, %6d bytes (at most %d tokens): %s", n, len(text), bound, what)
	if n > bound {
		s.Errorf("%s: %d tokens, want at most %d", what, n, bound)
	}
	return n
}

// listed returns the result of tools/list as it is sent.
func (w *rawClient) listed(t testing.TB) string { return w.call(t, "tools/list", nil).Raw }

// ready waits until all sources have started and offer at least this many functions.
func (w *rawClient) ready(t testing.TB, functions int) {
	t.Helper()
	var info bytes.Buffer
	polltest.Until(t, "all sources are ready", func() bool {
		text, _ := w.tool(t, "info", map[string]any{})
		info.Reset()
		info.WriteString(text)
		return gjson.Get(text, "state").String() == "ready" && gjson.Get(text, "functions").Int() >= int64(functions)
	}, &info)
}

// manyOperations writes an OpenAPI document with n operations that have parameters and descriptions.
func manyOperations(t *testing.T, folder string, n int) string {
	paths := map[string]any{}
	for i := range n {
		paths[fmt.Sprintf("/things%d/{id}", i)] = map[string]any{"get": map[string]any{
			"operationId": fmt.Sprintf("getThing%d", i), "summary": fmt.Sprintf("Gives one thing of kind %d.", i),
			"parameters": []any{map[string]any{"name": "id", "in": "path", "required": true, "schema": map[string]string{"type": "integer"}}},
			"responses":  map[string]any{"200": map[string]string{"description": "one"}},
		}}
	}
	return writeJSON(t, folder, fmt.Sprintf("many%d.json", n),
		map[string]any{"openapi": "3.0.3", "info": map[string]string{"title": "Many", "version": "1"}, "paths": paths})
}

// TestChainSurfaceSize checks that the tool list has the same few tokens with ten functions and with ten thousand.
func TestChainSurfaceSize(t *testing.T) {
	t.Parallel()
	s := newSizes(t)
	var lists []string
	for _, n := range []int{10, 10_000} {
		folder := t.TempDir()
		config := writeJSON(t, folder, "onecall.json", map[string]any{
			"openapi": map[string]any{"many": map[string]string{"spec": manyOperations(t, folder, n), "baseUrl": "http://127.0.0.1:1"}},
		})
		w := stateless(t, serveHTTP(t, config).url)
		w.ready(t, n)
		list := w.listed(t)
		s.checkSize(600, list, fmt.Sprintf("tools/list, surface chain, %d functions", n))
		lists = append(lists, gjson.Get(list, "tools").Raw)
	}
	if lists[0] != lists[1] {
		t.Errorf("got lists\n%s\n%s\nwant the same", lists[0], lists[1])
	}
}

// gitHubGroups are the 13 dispatchers for GitHub's operations.
var gitHubGroups = map[string][]string{
	"repos":       {"repo"},
	"issues":      {"repo.issue", "repo.label", "repo.milestone", "repo.assignee", "issue"},
	"pulls":       {"repo.pull"},
	"actions":     {"repo.action", "org.action", "enterprise.action"},
	"orgs":        {"org", "organization"},
	"users":       {"user"},
	"enterprises": {"enterprise"},
	"codespaces":  {"codespace", "repo.codespace", "org.codespace", "user.codespace"},
	"gists":       {"gist"},
	"teams":       {"team", "org.team"},
	"apps":        {"app", "application", "installation"},
	"packages":    {"package", "org.package", "user.package"},
	"misc":        {"github"},
}

const gitHubOperations = 1223

var gitHubDocument = []string{"@octokit", "openapi", "generated", "api.github.com.json"}

// serveGitHub serves GitHub's operations with a budget that is large enough for whole schemas.
func serveGitHub(t *testing.T) *httpServer {
	t.Helper()
	document := requireFile(t, gitHubDocument...)
	return serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{
		"access":  map[string]string{"http": "read_write"},
		"budget":  map[string]int{"maxTotalTokens": 1_000_000},
		"openapi": map[string]any{"github": map[string]string{"spec": document}},
		"groups":  gitHubGroups, "surface": "dispatch", "ungrouped": "hide",
	}))
}

// TestGitHubSize measures the tools for GitHub's operations, their signatures and their schemas.
func TestGitHubSize(t *testing.T) {
	t.Parallel()
	s := newSizes(t)
	served := serveGitHub(t)
	w := stateless(t, served.url)
	w.ready(t, gitHubOperations)
	list := w.listed(t)
	s.checkSize(2060, list, "tools/list, surface dispatch, GitHub in 13 groups")
	if got := gjson.Get(list, "tools.#").Int(); got != int64(len(gitHubGroups))+3 {
		t.Errorf("%d tools, want %d", got, len(gitHubGroups)+3)
	}
	flatClient := *w
	flatClient.url += "?surface=flat"
	flatList := flatClient.listed(t)
	n := s.count(flatList)
	t.Logf("%d tokens: tools/list, surface flat, GitHub: %.0f times dispatch", n, float64(n)/float64(s.count(list)))
	s.checkGrouped(w)
	functions := functionsOf(t, served)
	var names []string
	for _, name := range functions.Get("#.name").Array() {
		names = append(names, name.String())
	}
	if len(names) != gitHubOperations {
		t.Fatalf("%d functions, want %d", len(names), gitHubOperations)
	}
	s.checkAgainstDocument(w, functions, requireFile(t, gitHubDocument...))
	s.signatures(w, names)
	s.schemas(w, names, gjson.Get(flatList, "tools"))
}

// functionsOf returns GitHub's functions as the command line lists them.
func functionsOf(t *testing.T, served *httpServer) gjson.Result {
	t.Helper()
	args := []string{"tools", "--json", "--config", configOf(served)}
	out, err := clitest.Self(t, t.TempDir(), args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return gjson.GetBytes(out, `functions.#(source=="github")#`)
}

func configOf(served *httpServer) string {
	return served.cmd.Args[slices.Index(served.cmd.Args, "--config")+1]
}

// signatures measures the signatures that search returns for functions by name.
func (s *sizes) signatures(w *rawClient, names []string) {
	s.Helper()
	var bare, described []int
	for chunk := range slices.Chunk(names, 5) {
		text, failed := w.tool(s, "search", map[string]any{"names": chunk})
		list := gjson.Get(text, "functions").Array()
		if failed || len(list) != len(chunk) {
			s.Fatalf("search for %v: %s", chunk, text)
		}
		for i, one := range list {
			signature, _, _ := strings.Cut(one.String(), " // ")
			if !strings.HasPrefix(signature, chunk[i]+"(") {
				s.Fatalf("the signature of %s is %s", chunk[i], one.Raw)
			}
			bare, described = append(bare, s.count(signature)), append(described, s.count(one.Raw))
		}
	}
	slices.Sort(bare)
	slices.Sort(described)
	s.Logf("%5d tokens (at most 120), and with its description %d: the median signature by search; the largest %d and %d",
		bare[len(bare)/2], described[len(described)/2], bare[len(bare)-1], described[len(described)-1])
	if described[len(described)/2] > 120 {
		s.Errorf("the median signature has %d tokens, want at most 120", described[len(described)/2])
	}
}

// schemas checks that search returns the same schema as the flat tool of each function, and logs the sizes.
func (s *sizes) schemas(w *rawClient, names []string, flat gjson.Result) {
	s.Helper()
	tools := map[string]gjson.Result{}
	for _, tool := range flat.Array() {
		tools[tool.Get("name").String()] = tool
	}
	var all []int
	for chunk := range slices.Chunk(names, 50) {
		text, failed := w.tool(s, "search", map[string]any{"names": chunk, "schema": true})
		list := gjson.Get(text, "functions").Array()
		if failed || len(list) != len(chunk) {
			s.Fatalf("search for %v: %.1000s", chunk, text)
		}
		for i, one := range list {
			tool, ok := tools[strings.ReplaceAll(chunk[i], ".", "_")]
			if !ok && len(chunk[i]) > 52 {
				continue // its tool has a shortened name
			}
			if one.Get("name").String() != chunk[i] || !sameJSON(one.Get("inputSchema").Raw, tool.Get("inputSchema").Raw) {
				s.Errorf("%s: search returned %s, the flat tool is %s", chunk[i], one.Raw, tool.Raw)
			}
			all = append(all, s.count(one.Get("inputSchema").Raw))
		}
	}
	slices.Sort(all)
	s.Logf("%5d tokens: the median input schema by search, the largest %d", all[len(all)/2], all[len(all)-1])
	if len(all) < len(names)*9/10 {
		s.Errorf("%d schemas compared, want at least %d", len(all), len(names)*9/10)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestFleetSize measures four npm servers on the surfaces chain and flat, and checks that search returns each tool's schema as its server
// lists it.
func TestFleetSize(t *testing.T) {
	t.Parallel()
	s := newSizes(t)
	folder := t.TempDir()
	all := npmServers(npmPackages(t), folder)
	fleet := map[string]server{}
	for _, name := range []string{"everything", "files", "memory", "thinking"} {
		fleet[name] = all[name]
	}
	served := serveHTTP(t, writeJSON(t, folder, "onecall.json", map[string]any{
		"access": map[string]string{"http": "read_write"}, "mcpServers": fleet, "budget": map[string]int{"maxTotalTokens": 1_000_000},
	}))
	w := stateless(t, served.url)
	w.ready(t, 30)
	chain := s.checkSize(600, w.listed(t), "tools/list, surface chain, four npm servers")
	flatClient := *w
	flatClient.url += "?surface=flat"
	flat := s.count(flatClient.listed(t))
	t.Logf("%5d tokens: tools/list, surface flat, four npm servers: %.1f times chain", flat, float64(flat)/float64(chain))
	bare, tools := 0, 0
	for name, one := range fleet {
		list := s.bareTools(one)
		bare += s.count(list.Raw)
		for _, tool := range list.Array() {
			tools++
			function := name + "." + tool.Get("name").String()
			text, failed := w.tool(t, "search", map[string]any{"names": []string{function}, "schema": true})
			shown := gjson.Get(text, "functions.0")
			if failed || !sameJSON(shown.Get("inputSchema").Raw, tool.Get("inputSchema").Raw) {
				t.Errorf("%s: search returned %s, want the input schema of %s", function, text, tool.Raw)
			}
			if outputSchema := tool.Get("outputSchema").Raw; outputSchema != "" && !sameJSON(shown.Get("outputSchema").Raw, outputSchema) {
				t.Errorf("%s: search returned %s, want the output schema %s", function, text, outputSchema)
			}
		}
	}
	t.Logf("%5d tokens: the four servers' own lists of %d tools: %.1f times chain", bare, tools, float64(bare)/float64(chain))
}

// bareTools returns the tools that a server lists to a client of the SDK.
func (s *sizes) bareTools(one server) gjson.Result {
	s.Helper()
	cmd := exec.Command(one.Command, one.Args...)
	for key, value := range one.Env {
		cmd.Env = append(cmd.Environ(), key+"="+value)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "bare", Version: "1"},
		&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}}).Connect(s.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		s.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(s.Context(), nil)
	if err != nil {
		s.Fatal(err)
	}
	text, err := json.Marshal(list.Tools)
	if err != nil {
		s.Fatal(err)
	}
	return gjson.ParseBytes(text)
}

// bulkService creates sixty objects at a time, and answers with all of them.
func bulkService(t *testing.T) (url, document string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var all []string
		for i := range 60 {
			all = append(all, fmt.Sprintf(`{"id":%d,"url":"https://example.com/api/dcim/devices/%d/","name":"device-%d",`+
				`"status":{"value":"active","label":"Active"},"site":{"id":%d,"name":"Site %d"},"tags":[],"created":"2026-01-01T00:00:00Z"}`, i, i, i, i%4, i%4))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "[%s]", strings.Join(all, ","))
	}))
	t.Cleanup(server.Close)
	document = clitest.Write(t, t.TempDir(), "bulk.json",
		`{"openapi":"3.0.3","info":{"title":"Bulk","version":"1"},"paths":{"/devices":{"post":{"operationId":"createDevices",
		"requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}},"responses":{"201":{"description":"made","content":{"application/json":{"schema":{"type":"array"}}}}}}}}}`)
	return server.URL, document
}

// TestAnswerSizes measures what an answer has in addition to its result: nothing, a probe, or a lean form.
func TestAnswerSizes(t *testing.T) {
	t.Parallel()
	s := newSizes(t)
	url, document := bulkService(t)
	w := stateless(t, serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{
		"access":  map[string]string{"http": "read_write"},
		"openapi": map[string]any{"bulk": map[string]string{"spec": document, "baseUrl": url}},
	})).url)
	w.ready(t, 1)
	eval := func(expression string) map[string]any {
		return map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": expression}}}}
	}

	text, failed := w.tool(t, "chain", eval(`{"a": 1.5, "b": ["x", nil, true]}`))
	if want := `{"a":1.5,"b":["x",null,true]}`; failed || text != want {
		t.Errorf("got %s, want only %s", text, want)
	}
	t.Logf("%5d tokens: a lite success in addition to its result", s.count(text)-s.count(`{"a":1.5,"b":["x",null,true]}`))

	text, failed = w.tool(t, "chain", eval(`map(1..5000, ({"id": #, "name": "item " + string(#)}))`))
	preview := gjson.Get(text, "preview")
	if failed || !strings.HasPrefix(gjson.Get(text, "continuation_token").String(), "oc1_") || preview.Type != gjson.String {
		t.Fatalf("the answer to a large result is %s, want a probe", text)
	}
	s.checkSize(90, strings.Replace(text, preview.Raw, `""`, 1), "a probe without its preview")
	s.checkSize(200, text, "a probe")

	name := "bulk.device.bulk_create"
	if match, _ := w.tool(t, "search", map[string]any{"query": "create devices", "lite": true}); gjson.Get(match, "functions.0").Exists() {
		name = gjson.Get(match, "functions.0").String()
	}
	request := map[string]any{"lite": true, "steps": []any{map[string]any{"fn": name}}}
	text, failed = w.tool(t, "chain", request)
	if failed || gjson.Get(text, "accepted").Int() != 60 {
		t.Fatalf("a write of 60 objects: got %s, want 60 accepted", text)
	}
	lean := s.checkSize(48, text, "the lean answer to a write of 60 objects")
	request["verify"] = true
	text, failed = w.tool(t, "chain", request)
	if failed || gjson.Get(text, "#").Int() != 60 {
		t.Fatalf("a write of 60 objects with verify: got %s, want 60 of them", text)
	}
	t.Logf("%5d tokens: the same with verify: %d times as much", s.count(text), s.count(text)/lean)
}

// TestHandbook measures what a client reads first: the instructions and the tool list.
func TestHandbook(t *testing.T) {
	t.Parallel()
	s := newSizes(t)
	w := &rawClient{url: serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{})).url, client: httpClient(t)}
	r := w.send(t, http.MethodPost, []byte(initialize), nil)
	w.version, w.session = statefulVersion, r.header.Get("Mcp-Session-Id")
	t.Cleanup(func() { w.delete(t) })
	instructions := r.answer().Get("result.instructions").String()
	s.checkSize(120, instructions, "instructions")
	for _, word := range []string{"`chain`", "`search`", "$0."} {
		if !strings.Contains(instructions, word) {
			t.Errorf("the instructions lack %s: %q", word, instructions)
		}
	}
	tools := gjson.Get(w.listed(t), "tools").Array()
	if len(tools) != 3 {
		t.Errorf("%d tools, want 3", len(tools))
	}
	for _, tool := range tools {
		bound := map[string]int{"chain": 450, "search": 110, "info": 45}[tool.Get("name").String()]
		s.checkSize(bound, tool.Raw, "the tool "+tool.Get("name").String())
	}
}
