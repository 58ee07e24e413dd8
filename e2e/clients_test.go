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

// agentWork writes a file with 500 objects, and a configuration with servers that reach it.
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

// nodeCommand returns a command that runs Node in its own home. onecall, for what it starts, is the test binary.
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

// TestSDKClient runs an agent's work in a client of the official TypeScript SDK, over both transports.
func TestSDKClient(t *testing.T) {
	t.Parallel()
	requireFile(t, "@modelcontextprotocol", "sdk", "package.json")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"http", "stdio"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			config, file := agentWork(t)
			args := []string{way, binary, "serve", "--config", config, file}
			if way == "http" {
				args = []string{way, serveHTTP(t, config).url, file}
			}
			out, err := script(t, "sdk.mjs", args...).Output()
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				t.Fatalf("%v: %s", err, failed.Stderr)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", out)
		})
	}
}

// requireFile skips a test if a file of an npm package is missing.
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
		for way, target := range map[string][]string{"http": {served.url}, "stdio": {binary, "serve", "--config", config}} {
			t.Run(era+" "+way, func(t *testing.T) {
				t.Parallel()
				inspect := func(want int, args ...string) (out, stderr []byte) {
					t.Helper()
					// The options come first: what follows a command belongs to the command.
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
		t.Fatalf("%q ended with %s, not %d: %s%s", args[1:], code, want, stdoutText.Bytes(), stderrText.Bytes())
	}
	return stdoutText.Bytes(), stderrText.Bytes()
}

type inspectFunc func(want int, args ...string) (out, stderr []byte)

func inspectTools(t *testing.T, inspect inspectFunc) {
	t.Helper()
	out, complaints := inspect(0, "--method", "tools/list", "--strict")
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "chain info search" {
		t.Errorf("tools: %s", got)
	}
	for line := range strings.Lines(string(complaints)) {
		folder, ok := strings.CutPrefix(strings.TrimSpace(line), "Path: ")
		if ok && folder != "inputSchema.properties.return" || strings.Contains(line, "Error:") { // the returned value may be any JSON
			t.Errorf("the inspector finds fault with the schemas: %s", complaints)
		}
	}
}

func inspectChain(t *testing.T, inspect inspectFunc, file string) {
	t.Helper()
	const good = 0
	const toolFailed = 5
	request := func(last string) string {
		text, err := json.Marshal(map[string]any{"lite": true, "return": last, "steps": []map[string]any{
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
			t.Fatalf("%v: %s", err, out)
		}
		return result.Content[0].Text
	}
	if got, want := answer(good, request("$1[-1]")), `{"id":499,"kind":"tree","name":"item 499"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := answer(toolFailed, request("$1[0].nam")); !strings.Contains(got, `"code":"reference_missing"`) ||
		!strings.Contains(got, `"nearest":"name"`) {
		t.Errorf("a reference that leads nowhere: %s", got)
	}
}
