package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// peer describes one of the compared ways to make calls: how it is started, and how a model's client uses it.
type peer struct {
	key, name  string
	npm        string // the npm package of a Node.js peer; "": the peer is not one
	language   language
	tool       string              // the tool that runs a program
	argument   string              // the name of the tool's argument that holds the program; "": the program is the whole arguments
	write      func(string) string // turns a program into what a model writes for this peer; nil: unchanged
	start      startFunction       // nil: the clients call the upstream
	noBuiltins bool                // it has only the functions of servers
	required   bool                // without it there is nothing to compare with
}

// startFunction starts a peer in front of the upstream at a URL, and returns its process and its own URL.
type startFunction func(s *setup, ctx context.Context, upstream string) (*proc.Process, string, error)

// peers lists the peers in the order of the tables.
var peers = []peer{
	{key: "bare", name: "bare SDK client", language: oneByOne, required: true},
	{key: "onecall", name: "onecall", language: chainJSON, tool: "chain", start: (*setup).startOnecall, required: true},
	{key: "vmcp", name: "ToolHive vMCP", language: starlark, tool: "execute_tool_script", argument: "script", noBuiltins: true,
		start: (*setup).startVMCP},
	{key: "cloudflare", name: "Cloudflare code mode", npm: "@cloudflare/codemode", language: javascript, tool: "code", argument: "code",
		write: cloudflareProgram, start: startNode("cloudflare")},
	{key: "aiSDK", name: "AI SDK code mode", npm: "@ai-sdk/code-mode", language: javascript, tool: "code", argument: "code",
		start: startNode("aiSDK")},
	{key: "utcp", name: "UTCP code mode", npm: "@utcp/code-mode", language: javascript, tool: "code", argument: "code",
		write: utcpProgram, start: startNode("utcp"), noBuiltins: true},
}

// cloudflareProgram wraps a program in the function that Cloudflare's code mode expects.
func cloudflareProgram(program string) string {
	return "async () => {\n  " + strings.ReplaceAll(strings.ReplaceAll(program, "tools.", "codemode."), "\n", "\n  ") + "\n}"
}

// utcpProgram rewrites the calls of tools for UTCP, whose calls return a value instead of a promise.
func utcpProgram(program string) string {
	return strings.NewReplacer("await tools.", "m.", "tools.", "m.").Replace(program)
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// started starts a program that prints its URL.
func started(ctx context.Context, cmd *exec.Cmd) (*proc.Process, string, error) {
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, "", err
	}
	url, err := p.Await(listening, startLimit)
	if err != nil {
		return nil, "", errors.Join(err, p.Close())
	}
	return p, url, nil
}

// startUpstream starts the server that all arms call.
func (s *setup) startUpstream(ctx context.Context, protocol string) (*proc.Process, string, error) {
	return started(ctx, exec.Command(s.bin("upstream"), fmt.Sprintf("-sessions=%t", protocol == withSessions)))
}

func (s *setup) startOnecall(ctx context.Context, upstream string) (*proc.Process, string, error) {
	folder, err := os.MkdirTemp(s.temp, "onecall")
	if err != nil {
		return nil, "", err
	}
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"bench": map[string]any{"url": upstream}}})
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(folder, "onecall.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, "", err
	}
	cmd := exec.Command(s.bin("onecall"), "serve", "--http", "127.0.0.1:0", "--config", file)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+folder, "XDG_CACHE_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	return started(ctx, cmd)
}

// vmcpConfig has one server, and turns on code mode, which is off by default.
const vmcpConfig = `name: compare
groupRef: compare
backends:
  - {name: bench, url: %q, transport: streamable-http}
incomingAuth: {type: anonymous}
outgoingAuth: {source: inline, default: {type: unauthenticated}}
aggregation:
  conflictResolution: prefix
  conflictResolutionConfig: {prefixFormat: "{workload}_"}
codeMode: {enabled: true}
`

func (s *setup) startVMCP(ctx context.Context, upstream string) (*proc.Process, string, error) {
	folder, err := os.MkdirTemp(s.temp, "vmcp")
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(folder, "vmcp.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, vmcpConfig, upstream), 0o600); err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(s.vmcp(), "serve", "--config", file, "--host", "127.0.0.1", "--port", fmt.Sprint(port))
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+folder, "XDG_CACHE_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if err := awaitPort(p, address); err != nil {
		return nil, "", errors.Join(err, p.Close())
	}
	return p, "http://" + address + "/mcp", nil
}

// startNode starts one of the code modes, which are libraries, behind an MCP server with one tool that runs a program.
func startNode(name string) startFunction {
	return func(s *setup, ctx context.Context, upstream string) (*proc.Process, string, error) {
		return started(ctx, s.node("serve.mjs", name, upstream))
	}
}

// freePort returns a port of loopback on which no program listened a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// awaitPort waits until something listens on address.
func awaitPort(p *proc.Process, address string) error {
	for began := time.Now(); time.Since(began) < startLimit; {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-p.Done():
			return fmt.Errorf("ended before it listened; its output: %q", p.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("did not listen within %v; its output: %q", startLimit, p.Output())
}
