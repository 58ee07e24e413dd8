package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// npmServer returns the options of a server of the npm registry, installed below the folder that ONECALL_TEST_NPM names.
func npmServer(t *testing.T, script string, args ...string) *mcpsource.Options {
	t.Helper()
	folder := os.Getenv("ONECALL_TEST_NPM")
	if folder == "" {
		t.Skip("ONECALL_TEST_NPM does not name a folder with node_modules")
	}
	script = filepath.Join(folder, "node_modules", filepath.FromSlash(script))
	if _, err := os.Stat(script); err != nil {
		t.Skipf("not installed: %v", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	return &mcpsource.Options{Name: "npm", Command: "node", Args: append([]string{script}, args...),
		Env: map[string]string{"HOME": t.TempDir()}, StartTimeout: patience} // a start takes over half a minute on a busy machine
}

// openRegistered opens a source on a real server, and checks that all its functions can be registered.
func openRegistered(t *testing.T, o *mcpsource.Options) *mcpsource.Source {
	t.Helper()
	s := openReady(t, o)
	registry, err := steps.NewRegistry(s.Functions(), nil)
	if err != nil || registry.Len() == 0 {
		t.Fatalf("the functions cannot be registered, or there are none: %v", err)
	}
	return s
}

// TestServers calls servers of the npm registry, each of which stores data.
func TestServers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for script, c := range map[string]struct {
		args  []string
		calls [][3]string // a tool, its arguments, and a part of its result
	}{
		"@modelcontextprotocol/server-filesystem/dist/index.js": {[]string{folder}, [][3]string{
			{"write_file", `{"path":"FOLDER/a.txt","content":"héllo"}`, ""}, {"read_text_file", `{"path":"FOLDER/a.txt"}`, `"content":"héllo"`}}},
		"@modelcontextprotocol/server-memory/dist/index.js": {nil, [][3]string{
			{"create_entities", `{"entities":[{"name":"a","entityType":"t","observations":["o"]}]}`, `"name":"a"`},
			{"search_nodes", `{"query":"a"}`, `"observations":["o"]`}}},
		"@modelcontextprotocol/server-everything/dist/index.js": {nil, [][3]string{
			{"resources.read", `{"uri":"demo://resource/dynamic/text/1"}`, "This is a plaintext resource"},
			{"resources.read", `{"uri":"demo://resource/dynamic/blob/1"}`, `"type":"resource","uri":"demo://resource/dynamic/blob/1"`},
			{"prompts.get", `{"name":"args-prompt","arguments":{"city":"Bonn"}}`, "What's weather in Bonn?"}}},
		"@wonderwhy-er/desktop-commander/dist/index.js": {[]string{"--no-onboarding"}, [][3]string{
			{"write_file", `{"path":"FOLDER/b.txt","content":"one two"}`, ""}, {"read_file", `{"path":"FOLDER/b.txt"}`, "one two"}}},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			o := npmServer(t, script, c.args...)
			o.Env["MEMORY_FILE_PATH"] = filepath.Join(folder, "memory.json")
			s := openRegistered(t, o)
			for _, call := range c.calls {
				if got := mustCall(t, s, "npm."+call[0], strings.ReplaceAll(call[1], "FOLDER", folder)); !strings.Contains(got, call[2]) {
					t.Errorf("%s: %s, want %s", call[0], got, call[2])
				}
			}
			if strings.Contains(script, "filesystem") {
				mustFail(t.Context(), t, s, "npm.read_text_file", `{"path":"/etc/passwd"}`, fault.FunctionFailed)
				if spec := function(t, s, "npm.read_text_file"); spec.Effect != steps.Read {
					t.Errorf("read_text_file has the effect %v, want read", spec.Effect)
				}
			}
		})
	}
}

func TestServerEverything(t *testing.T) {
	t.Parallel()
	s := openRegistered(t, npmServer(t, "@modelcontextprotocol/server-everything/dist/index.js", "stdio"))
	if got := mustCall(t, s, "npm.echo", `{"message":"hi"}`); got != `"Echo: hi"` {
		t.Errorf("echo: got %s, want \"Echo: hi\"", got)
	}
	image := mustCall(t, s, "npm.get-tiny-image", `{}`)
	data, err := base64.StdEncoding.DecodeString(gjson.Get(image, "1.data").Str)
	if gjson.Get(image, "1.type").Str != "image" || len(data) == 0 || gjson.Get(image, "1.size").Int() != int64(len(data)) || err != nil {
		t.Errorf("get-tiny-image: got %s, want an image with its size and data", image)
	}
	reported := 0
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Progress: func(context.Context, float64, float64, string) { reported++ }})
	if _, err := function(t, s, "npm.trigger-long-running-operation").Call(ctx, []byte(`{"duration":0.2,"steps":3}`)); err != nil ||
		reported != 3 {
		t.Errorf("got %v and %d progress notifications, want 3", err, reported)
	}
	if got := mustCall(t, s, "npm.simulate-research-query", `{"topic":"tides"}`); !strings.Contains(got, "# Research Report: tides") {
		t.Errorf("simulate-research-query, which runs only as a task: got %s, want its report", got)
	}
}

// everyCapability returns the capabilities of a client that can answer all requests of servers.
//
//nolint:staticcheck // servers still ask for roots and sample
func everyCapability() *sdk.ClientCapabilities {
	return &sdk.ClientCapabilities{Sampling: &sdk.SamplingCapabilities{}, Elicitation: &sdk.ElicitationCapabilities{},
		RootsV2: &sdk.RootCapabilities{ListChanged: true}}
}

// A server that lists tools only to clients that can be asked, and asks the client in those tools.
func TestServerEverythingInUpstreamSession(t *testing.T) {
	t.Parallel()
	o := npmServer(t, "@modelcontextprotocol/server-everything/dist/index.js", "stdio")
	o.AsProxy = true
	s := openRegistered(t, o)
	until(t, s, func() bool { // it lists them shortly after the greeting
		return slices.ContainsFunc(s.Functions(), func(fn steps.Function) bool { return fn.Name == "npm.trigger-sampling-request" })
	})
	c := newClient("ann", "2025-11-25")
	c.Capabilities = everyCapability()
	c.Ask = func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		c.record(method)
		if method == "roots/list" {
			return json.RawMessage(`{"roots":[]}`), nil
		}
		return json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"sampled for ` +
			gjson.GetBytes(params, "maxTokens").Raw + `"}}`), nil
	}
	l := openSession(t, s, &c.DownstreamClient)
	if got := callText(t, l, "npm.trigger-sampling-request", `{"prompt":"p","maxTokens":7}`); !strings.Contains(got, "sampled for 7") {
		t.Errorf("trigger-sampling-request: got %s, want sampled for 7", got)
	}
	if _, err := function(t, s, "npm.trigger-sampling-request").Call(t.Context(), []byte(`{"prompt":"p","maxTokens":7}`)); err == nil {
		t.Error("a call outside a session was sampled")
	}
	for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
		if got, err := l.Do(t.Context(), method, nil); err != nil || len(got) < 100 {
			t.Errorf("%s: %s, %v, want at least 100 bytes", method, got, err)
		}
	}
}

// everythingServer is the SDK's server for conformance tests, in ONECALL_TEST_BIN or PATH.
func everythingServer(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("ONECALL_TEST_BIN"); folder != "" {
		if path, err := exec.LookPath(filepath.Join(folder, "everything-server")); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("everything-server")
	if err != nil {
		t.Skip("everything-server of the Go SDK is neither in ONECALL_TEST_BIN nor in PATH")
	}
	return path
}

func TestServerOfConformance(t *testing.T) {
	t.Parallel()
	program := everythingServer(t)
	check := func(t *testing.T, o *mcpsource.Options) {
		s := openRegistered(t, o)
		if got := mustCall(t, s, "conformance.test_simple_text", `{}`); !strings.HasPrefix(got, `"This is a simple text`) {
			t.Errorf("test_simple_text: got %s, want This is a simple text", got)
		}
		if got := mustCall(t, s, "conformance.test_image_content", `{}`); gjson.Get(got, "mimeType").Str != "image/png" ||
			gjson.Get(got, "size").Int() == 0 {
			t.Errorf("test_image_content: got %s, want an image/png with a size", got)
		}
		mustFail(t.Context(), t, s, "conformance.test_error_handling", `{}`, fault.FunctionFailed)
	}
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		check(t, &mcpsource.Options{Name: "conformance", Command: program})
	})
	for _, stateless := range []string{"true", "false"} {
		t.Run("http stateless="+stateless, func(t *testing.T) {
			t.Parallel()
			address := "127.0.0.1:" + porttest.Reserve(t)
			server := exec.CommandContext(t.Context(), program, "-http", address, "-stateless="+stateless)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Wait() })
			poll(func() bool {
				conn, err := net.Dial("tcp", address)
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			})
			o := &mcpsource.Options{Name: "conformance", URL: "http://" + address}
			if stateless == "false" {
				o.Protocol = protocol.Stateful
			}
			check(t, o)
		})
	}
}

// server-filesystem uses the roots of a client instead of the directories that it was started with.
func TestServerFilesystemInUpstreamSession(t *testing.T) {
	t.Parallel()
	for _, chosen := range []bool{false, true} {
		t.Run(fmt.Sprint("roots ", chosen), func(t *testing.T) {
			t.Parallel()
			folder, other := t.TempDir(), t.TempDir()
			o := npmServer(t, "@modelcontextprotocol/server-filesystem/dist/index.js", folder)
			o.AsProxy, o.Roots = true, chosen
			s := openRegistered(t, o)
			c := newClient("ann", "2025-11-25")
			c.Capabilities = everyCapability()
			c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"roots":[{"uri":"file://` + other + `"}]}`), nil
			}
			l := openSession(t, s, &c.DownstreamClient)
			directories := func() string { return callText(t, l, "npm.list_allowed_directories", `{}`) }
			if chosen {
				until(t, s, func() bool { return strings.Contains(directories(), other) })
				return
			}
			callText(t, l, "npm.write_file", `{"path":"`+folder+`/a.txt","content":"a"}`)
			l.do(t, "notifications/roots/list_changed", "")
			callText(t, l, "npm.list_directory", `{"path":"`+folder+`"}`)
			if got := directories(); strings.Contains(got, other) || !strings.Contains(got, folder) {
				t.Errorf("got directories %s, want only the configured one", got)
			}
		})
	}
}
