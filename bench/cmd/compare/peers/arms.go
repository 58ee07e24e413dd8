package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/load"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// arm is one of the compared ways to make calls: how it is started, and how a model's client uses it.
type arm struct {
	key, name  string
	language   language
	tool       string              // the tool that runs a program
	argument   string              // the name of the tool's argument that holds the program; "": the program is the whole arguments
	write      func(string) string // turns a program into what a model writes for this arm; nil: unchanged
	start      starter             // nil: the clients call the upstream
	noBuiltins bool                // it has only the functions of servers
	required   bool                // without it there is nothing to compare with
}

// starter installs an arm if need be, starts it in front of the upstream at a URL, and returns its process and its own URL.
type starter func(ctx context.Context, b *bench, upstream string) (*proc.Process, string)

// arms lists the arms in the order of the tables.
var arms = []arm{
	{key: "bare", name: "bare SDK client", language: oneByOne, required: true},
	{key: "onecall", name: "onecall", language: chainJSON, tool: "chain", start: startOnecall, required: true},
	{key: "vmcp", name: "ToolHive vMCP", language: starlark, tool: "execute_tool_script", argument: "script", noBuiltins: true,
		start: startVMCP},
	{key: "cloudflare", name: "Cloudflare code mode", language: javascript, tool: "code", argument: "code", write: cloudflareProgram,
		start: startNode("cloudflare")},
	{key: "aiSDK", name: "AI SDK code mode", language: javascript, tool: "code", argument: "code", start: startNode("aiSDK")},
	{key: "utcp", name: "UTCP code mode", language: javascript, tool: "code", argument: "code", write: utcpProgram,
		start: startNode("utcp"), noBuiltins: true},
}

// cloudflareProgram wraps a program in the function that Cloudflare's code mode expects.
func cloudflareProgram(program string) string {
	return "async () => {\n  " + strings.ReplaceAll(strings.ReplaceAll(program, "tools.", "codemode."), "\n", "\n  ") + "\n}"
}

// utcpProgram rewrites the calls of tools for UTCP, whose calls return a value instead of a promise.
func utcpProgram(program string) string {
	return strings.NewReplacer("await tools.", "m.", "tools.", "m.").Replace(program)
}

func startOnecall(ctx context.Context, b *bench, upstream string) (*proc.Process, string) {
	return harness.Listen(ctx, b.ServeOnecall(ctx, "onecall",
		harness.Config{"mcpServers": map[string]any{"bench": map[string]any{"url": upstream}}}, "--http", "127.0.0.1:0"))
}

// vmcpConfig has one server.
const vmcpConfig = `name: compare
groupRef: compare
backends:
  - {name: bench, url: %q, transport: streamable-http}
incomingAuth: {type: anonymous}
outgoingAuth: {source: inline, default: {type: unauthenticated}}
aggregation:
  conflictResolution: prefix
  conflictResolutionConfig: {prefixFormat: "{workload}_"}
`

// VMCPConfig returns the configuration of vMCP in front of an upstream, with more settings.
func VMCPConfig(upstream string, more map[string]any) []byte {
	config := fmt.Appendf(nil, vmcpConfig, upstream)
	for name, value := range more {
		config = fmt.Appendf(config, "%s: %s\n", name, harness.Must(json.Marshal(value)))
	}
	return config
}

func startVMCP(ctx context.Context, b *bench, upstream string) (*proc.Process, string) {
	return StartVMCP(ctx, b.Bench, VMCPConfig(upstream, map[string]any{"codeMode": map[string]bool{"enabled": true}}))
}

// StartVMCP starts vMCP at a free port, as it does not tell which one it takes, and returns it with its URL.
func StartVMCP(ctx context.Context, b *harness.Bench, config []byte) (*proc.Process, string) {
	program, path := b.Go(ctx, "vmcp"), filepath.Join(b.Temp, "vmcp.yaml")
	harness.WriteFile(path, config)
	host, port := harness.FreePort()
	address := host + ":" + port
	p := harness.Must(proc.Start(ctx, b.Cmd(program, "serve", "--config", path, "--host", host, "--port", port)))
	for began := time.Now(); time.Since(began) < harness.StartLimit; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return p, "http://" + address + "/mcp"
		}
	}
	harness.Fail("did not listen within %v: %v; its output: %q", harness.StartLimit, p.Close(), p.Output())
	return nil, ""
}

// startNode starts one of the code modes, which are libraries, behind an MCP server with one tool that runs a program.
func startNode(name string) starter {
	return func(ctx context.Context, b *bench, upstream string) (*proc.Process, string) {
		harness.Check(b.nodeErr)
		return harness.Listen(ctx, b.node.Command("serve.mjs", name, upstream))
	}
}

// running is an arm that was started.
type running struct {
	*arm
	process  *proc.Process      // nil: the client makes the calls itself
	sessions []*harness.Session // one for each client
	protocol string             // the version that the client and the arm negotiated
	list     string             // what a host shows a model first: the tools and the server's instructions
	fault    string             // why it was not measured, or what went wrong at its end; "": nothing
	results  map[string]*result // the results, by the work's key
	used     proc.Usage         // what its processes had used after all measurements
}

// clients is the maximum number of clients of an arm.
const clients = 16

// begin starts the arm in front of the upstream at url, connects the clients, and waits until the arm gives a correct answer.
func (a *running) begin(ctx context.Context, b *bench, url, protocol string) {
	if a.start != nil {
		a.process, url = a.start(ctx, b, url)
	}
	for range clients {
		s, err := b.Dial(ctx, url, protocol)
		if err != nil && protocol == load.WithoutSessions { // the arm speaks only the older protocol
			protocol = load.WithSessions
			s, err = b.Dial(ctx, url, protocol)
		}
		harness.In("connecting", func() { harness.Check(err) })
		a.sessions = append(a.sessions, s)
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, err := a.do(ctx, workByKey("dependent3"), 0)
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(began) > harness.StartLimit {
			harness.Check(err)
		}
	}
	tools := harness.Must(json.Marshal(map[string]any{"tools": harness.Must(a.sessions[0].ListTools(ctx, nil)).Tools}))
	greeting := a.sessions[0].InitializeResult()
	a.list, a.protocol = string(tools)+greeting.Instructions, greeting.ProtocolVersion
	for i := range works {
		if a.can(&works[i]) {
			a.results[works[i].key] = &result{}
		}
	}
}

// callLimit is how long one piece of work may take before the arm counts as hanging. Most take milliseconds.
const callLimit = 10 * time.Second

// do does w once, checks the answer, and returns how long it took.
func (a *running) do(ctx context.Context, w *work, client int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	began := time.Now()
	got, err := a.answer(ctx, w, a.sessions[client])
	took := time.Since(began)
	if err == nil && got != w.want {
		err = fmt.Errorf("wrong answer: %.200s, not %s", got, w.want)
	}
	return took, err
}

// answer does w from a client, and returns the answer as compact JSON.
func (a *running) answer(ctx context.Context, w *work, s *harness.Session) (string, error) {
	if a.language == oneByOne {
		value, err := w.bare(ctx, s)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(value)
		return string(text), err
	}
	text, err := s.Answer(ctx, a.tool, a.arguments(w))
	if err != nil {
		return "", err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return "", fmt.Errorf("answers %.200s: %w", text, err)
	}
	return compact.String(), nil
}

// can reports whether the arm has a way to do w.
func (a *arm) can(w *work) bool {
	if a.language == oneByOne {
		return w.bare != nil
	}
	return w.programs[a.language] != "" && !(w.builtin && a.noBuiltins)
}

// arguments returns the arguments that the client sends for w: for onecall the chain itself, else the program as a text.
func (a *arm) arguments(w *work) json.RawMessage {
	program := w.programs[a.language]
	if a.argument == "" {
		return json.RawMessage(program)
	}
	if a.write != nil {
		program = a.write(program)
	}
	args, _ := rawjson.Marshal(map[string]string{a.argument: program}) // never fails for a text
	return args
}

// written returns the calls that a model writes for w, each with its name.
func (a *arm) written(w *work) []byte {
	if a.language == oneByOne {
		return []byte(w.programs[oneByOne])
	}
	return tally.CallText(a.tool, a.arguments(w))
}
