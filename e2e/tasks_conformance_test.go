//go:build e2e && unix

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// taskChains are the chains that stand for the tools which the suite expects of a server with tasks: with them onecall does what the suite
// says of each. SERVICE is the address of a service, and ARGS are the tool's arguments.
var taskChains = map[string]string{
	"greet":        `{"lite":true,"format":"lines","steps":[{"expr":"['Hello, ' + $input.name + '!']"}],"input":ARGS}`,
	"slow_compute": `{"asyncAfterMs":300,"lite":true,"steps":[{"http.get":{"url":"SERVICE/wait?seconds=${$input.seconds}"}}],"input":ARGS}`,
	"failing_job":  `{"async":true,"lite":true,"steps":[{"http.get":{"url":"SERVICE/fail"}}]}`,
	"confirm_delete": `{"async":true,"lite":true,"steps":[{"http.request":{"method":"DELETE","url":"SERVICE/wait?seconds=0&file=` +
		`${$input.filename}"}}],"input":ARGS}`,
	"multi_input": `{"async":true,"lite":true,"steps":[{"http.request":{"method":"DELETE","url":"SERVICE/wait?seconds=0"}},` +
		`{"text.replace":{"text":"a","pattern":"a","with":"b"}}]}`,
}

// taskScenarios are the scenarios of the suite about tasks, with what keeps checks of them from passing.
var taskScenarios = map[string]map[string]string{
	"tasks-lifecycle": {
		"sep-2663-tasks-get-status-failed": "it needs a tool that ends in an error of the protocol; a run that fails has a result, and only " +
			"that of a server that died is failed",
	},
	"tasks-capability-negotiation": {},
	"tasks-wire-fields":            {},
	"tasks-request-state-removal":  {},
	"tasks-mrtr-input":             {},
	"tasks-request-headers":        {},
	"tasks-dispatch-and-envelope":  {},
}

// TestTaskConformance runs the scenarios about tasks of the official suite against onecall, with chains in place of its tools. Three
// scenarios are left out: a tool that runs as a task only, and one that asks for a name and then becomes a task, are no chains; and the
// suite does not yet check notifications.
func TestTaskConformance(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	const entry = "conformance-next/dist/index.js"
	if _, err := os.Stat(filepath.Join(npmPackages(t), entry)); err != nil {
		t.Skipf("not installed: %v", err)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			http.Error(w, "failed", http.StatusUnprocessableEntity)
			return
		}
		seconds, _ := strconv.Atoi(r.URL.Query().Get("seconds"))
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
			fmt.Fprintln(w, "done")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(service.Close)
	served := serveHTTP(t, writeJSON(t, t.TempDir(), "onecall.json", map[string]any{
		"access": map[string]string{"http": "read_write"}, "approve": "write", "http": map[string]any{"allow": []string{strings.TrimPrefix(
			service.URL, "http://")}}, "functions": map[string]any{"text.replace": map[string]string{"effect": "write"}},
	}))
	front := httptest.NewServer(nameTaskTools(t, served.url, service.URL))
	t.Cleanup(front.Close)
	for scenario, exceptions := range taskScenarios {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			s := suite{name: scenario, node: func(*testing.T) string { return node }, entry: entry,
				args: []string{"--scenario", scenario}}
			got := s.run(t, front.URL+"/mcp")
			passed, _ := got.total()
			for key, message := range got.failures {
				if exceptions[key.id] == "" {
					t.Errorf("%s fails, want it to pass: %s", key.id, message)
				}
			}
			failed := map[string]bool{}
			for key := range got.failures {
				failed[key.id] = true
			}
			for id := range exceptions {
				if !failed[id] {
					t.Errorf("%s is an exception, but passes", id)
				}
			}
			if t.Logf("%d checks passed", passed); passed == 0 {
				t.Error("no check passed")
			}
		})
	}
}

// nameTaskTools passes requests on to a server, and has its chains look like the tools that the suite calls.
func nameTaskTools(t *testing.T, server, service string) http.Handler {
	target, err := url.Parse(strings.TrimSuffix(server, "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	var listed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(taskChains)) {
		fmt.Fprintf(&listed, `{"name":%q,"inputSchema":{"type":"object"}},`, name)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = target.Host
			body, err := io.ReadAll(p.In.Body)
			if err != nil {
				t.Error(err)
			}
			params := gjson.GetBytes(body, "params")
			chain := taskChains[params.Get("name").Str]
			if name := params.Get("name").Str; name == "protocol_error_job" {
				chain = taskChains["failing_job"]
			}
			if gjson.GetBytes(body, "method").Str == "tools/call" && chain != "" {
				chain = strings.NewReplacer("SERVICE", service, "ARGS", params.Get("arguments").Raw).Replace(chain)
				text := strings.Replace(string(body), `"name":`+params.Get("name").Raw, `"name":"chain"`, 1)
				body = []byte(strings.Replace(text, params.Get("arguments").Raw, chain, 1))
				if p.Out.Header.Get("Mcp-Name") != "" {
					p.Out.Header.Set("Mcp-Name", "chain")
				}
			}
			p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			p.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = bytes.Replace(body, []byte(`"tools":[`), []byte(`"tools":[`+listed.String()), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		},
	}
}
