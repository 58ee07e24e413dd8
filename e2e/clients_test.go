//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// agentWork writes a file with 500 objects, and a configuration with a server that reads it.
func agentWork(t *testing.T) (config, file string) {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir()) // the file server compares real paths
	if err != nil {
		t.Fatal(err)
	}
	servers := npmServers(npmPackages(t), folder)
	config = writeJSON(t, t.TempDir(), "onecall.json", map[string]any{
		"access":     map[string]string{"http": "read_write"},
		"mcpServers": map[string]server{"files": servers["files"], "everything": servers["everything"]},
	})
	var items []map[string]any
	for i := range 500 {
		items = append(items, map[string]any{"id": i, "name": fmt.Sprintf("item %d", i), "kind": []string{"lamp", "tree", "tünnel"}[i%3]})
	}
	return config, writeJSON(t, folder, "items.json", items)
}

// script returns a command that runs a script of testdata/mcp/clients in Node.
func script(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "testdata", "mcp", "clients", name))
	if err != nil {
		t.Fatal(err)
	}
	return nodeCommand(t, anyNode(t), append([]string{path}, args...)...)
}

// nodeCommand returns a command that runs Node in its own home. Processes that it starts run the test binary as onecall.
func nodeCommand(t *testing.T, node string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*clitest.TooLong)
	t.Cleanup(cancel)
	packages, home := npmPackages(t), t.TempDir()
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", "GORACE="+clitest.NoRaceDelay, "ONECALL_TEST_NPM="+filepath.Dir(packages),
		"HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home)
	return cmd
}

// TestSDKClient runs a client of the official TypeScript SDK over both transports.
func TestSDKClient(t *testing.T) {
	t.Parallel()
	requireFile(t, "@modelcontextprotocol", "sdk", "package.json")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			config, file := agentWork(t)
			args := []string{transport, binary, "serve", "--config", config, file}
			if transport == "http" {
				args = []string{transport, serveHTTP(t, config).url, file}
			}
			out, err := script(t, "sdk.mjs", args...).Output()
			var exitErr *exec.ExitError
			if errors.As(err, &exitErr) {
				t.Fatalf("sdk.mjs: %v: %s", err, exitErr.Stderr)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", out)
		})
	}
}

// requireFile returns the path of a file of an npm package. It skips the test if the file is missing.
func requireFile(t *testing.T, path ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{npmPackages(t)}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("not installed: %v", err)
	}
	return file
}

// TestInspector lists the tools and calls a chain with the inspector's command line, in both eras of the protocol, over both
// transports. The inspector checks that the tools' schemas are portable.
func TestInspector(t *testing.T) {
	t.Parallel()
	inspector := requireFile(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config, file := agentWork(t)
	served, node := serveHTTP(t, config), newNode(t)
	for _, era := range []string{"legacy", "modern"} {
		for transport, target := range map[string][]string{"http": {served.url}, "stdio": {binary, "serve", "--config", config}} {
			t.Run(era+" "+transport, func(t *testing.T) {
				t.Parallel()
				inspect := func(want int, args ...string) (out, stderr []byte) {
					t.Helper()
					// Options come first, as arguments after the server's command belong to that command.
					options := append([]string{inspector, "--cli", "--protocol-era", era, "-e", clitest.AsCommand + "=1", "-e", "GORACE=" +
						clitest.NoRaceDelay}, args...)
					return runNode(t, node, want, append(append(options, "--"), target...)...)
				}
				inspectTools(t, inspect)
				inspectChain(t, inspect, file)
			})
		}
	}
}

// runNode runs Node and checks its exit status.
func runNode(t *testing.T, node string, want int, args ...string) (out, stderr []byte) {
	t.Helper()
	var stdoutText, stderrText bytes.Buffer
	cmd := nodeCommand(t, node, args...)
	cmd.Stdout, cmd.Stderr = &stdoutText, &stderrText
	if code := clitest.ExitCode(cmd.Run()); code != fmt.Sprint(want) {
		t.Fatalf("%q: exit status %s, want %d: %s%s", args[1:], code, want, stdoutText.Bytes(), stderrText.Bytes())
	}
	return stdoutText.Bytes(), stderrText.Bytes()
}

type inspectFunc func(want int, args ...string) (out, stderr []byte)

func inspectTools(t *testing.T, inspect inspectFunc) {
	t.Helper()
	out, stderr := inspect(0, "--method", "tools/list", "--strict")
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("tools/list: %v: %s", err, out)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "chain info search" {
		t.Errorf("tools %q, want chain, info and search", got)
	}
	for line := range strings.Lines(string(stderr)) {
		schemaPath, ok := strings.CutPrefix(strings.TrimSpace(line), "Path: ")
		if ok && schemaPath != "inputSchema.properties.return" || strings.Contains(line, "Error:") { // the returned value may be any JSON
			t.Errorf("the inspector reports faults in the schemas: %s", stderr)
		}
	}
}

func inspectChain(t *testing.T, inspect inspectFunc, file string) {
	t.Helper()
	const success = 0
	const toolFailed = 5
	request := func(returned string) string {
		text, err := json.Marshal(map[string]any{"lite": true, "return": returned, "steps": []map[string]any{
			{"fn": "files.read_text_file", "args": map[string]string{"path": file}},
			{"fn": "expr.eval", "args": map[string]any{"expression": "fromJSON(text)", "vars": map[string]string{"text": "$0.content"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	answer := func(want int, request string) string {
		out, _ := inspect(want, "--method", "tools/call", "--tool-name", "chain", "--tool-args-json", request)
		var result struct{ Content []struct{ Type, Text string } }
		if err := json.Unmarshal(out, &result); err != nil || len(result.Content) != 1 || result.Content[0].Type != "text" {
			t.Fatalf("tools/call: %v, %s, want one text", err, out)
		}
		return result.Content[0].Text
	}
	if got, want := answer(success, request("$1[-1]")), `{"id":499,"kind":"tree","name":"item 499"}`; got != want {
		t.Errorf("the chain returned %s, want %s", got, want)
	}
	if got := answer(toolFailed, request("$1[0].nam")); !strings.Contains(got, `"code":"reference_missing"`) ||
		!strings.Contains(got, `"nearest":"name"`) {
		t.Errorf("a reference to a missing key: %s, want reference_missing with the nearest key", got)
	}
}
