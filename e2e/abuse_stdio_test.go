//go:build e2e && unix

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// stdioServer is `onecall serve` on pipes.
type stdioServer struct {
	in     io.WriteCloser
	pipe   io.Closer // the write end of out
	out    *bufio.Reader
	cmd    *exec.Cmd
	stderr *logTail
	checks int
}

// startStdioServer starts a server on pipes and begins a session. At the end of the test it closes the server's input if the server
// still runs.
func startStdioServer(t *testing.T, config string, args ...string) *stdioServer {
	t.Helper()
	p := &stdioServer{cmd: clitest.Self(t, t.TempDir(), append([]string{"serve", "--config", config}, args...)...), stderr: &logTail{}}
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.pipe, p.out = out, bufio.NewReaderSize(out, 1<<16)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.finish(t) })
	p.write(t, initialize)
	if m := p.read(t); m.Get("result.protocolVersion").String() != statefulVersion {
		t.Fatalf("initialize: got %s, want version %s", m.Raw, statefulVersion)
	}
	p.write(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

// finish closes the server's input and checks that the server exits without an error.
func (p *stdioServer) finish(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	p.in.Close()
	watchdog := time.AfterFunc(clitest.TooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	_, _ = io.Copy(io.Discard, p.out)
	if code := clitest.ExitCode(p.cmd.Wait()); code != "0" && code != "130" {
		t.Errorf("exit status %s, want 0 or 130: %s", code, p.stderr)
	}
}

func (p *stdioServer) write(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatalf("write: %v: %s", err, p.stderr)
	}
}

// read returns the next message of the server.
func (p *stdioServer) read(t *testing.T) gjson.Result {
	t.Helper()
	watchdog := time.AfterFunc(clitest.TooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	line, err := p.out.ReadString('\n')
	if err != nil || !gjson.Valid(line) {
		t.Fatalf("read: %v, %q, want JSON: %s", err, line, p.stderr)
	}
	return gjson.Parse(line)
}

// readAnswer reads up to the answer to a request and also returns the messages before it.
func (p *stdioServer) readAnswer(t *testing.T, id string) (answer gjson.Result, others []gjson.Result) {
	t.Helper()
	for {
		m := p.read(t)
		if m.Get("id").Raw == id && !m.Get("method").Exists() {
			return m, others
		}
		others = append(others, m)
	}
}

// chainRequest returns a request for a chain that evaluates an expression.
func (p *stdioServer) chainRequest(id, expression string) string {
	text, err := json.Marshal(map[string]any{"lite": true,
		"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": expression}}}})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"chain","arguments":%s}}`, id, text)
}

// checkServes runs a chain and returns the messages before its answer.
func (p *stdioServer) checkServes(t *testing.T) []gjson.Result {
	t.Helper()
	p.checks++
	id := fmt.Sprintf(`"alive %d"`, p.checks)
	p.write(t, p.chainRequest(id, "6 * 7"))
	m, others := p.readAnswer(t, id)
	if m.Get("result.content.0.text").String() != "42" {
		t.Fatalf("the server answered %s, want 42", m.Raw)
	}
	return others
}

// TestStdioAbuse writes malformed input to a server. The server must keep serving, and write nothing but the protocol.
func TestStdioAbuse(t *testing.T) {
	t.Parallel()
	config := newSlowService(t).config(t)
	nested := strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000)
	for _, c := range []struct{ name, line string }{
		{"blank", ""}, {"blanks", "  \t "}, {"not JSON", "hello"}, {"half a message", `{"jsonrpc":"2.0","id":1,"method":"tools/list"`},
		{"two messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`},
		{"null", "null"}, {"number", "7"}, {"empty batch", "[]"}, {"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`}, {"object", "{}"},
		{"wrong version of JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"ping"}`}, {"no method", `{"jsonrpc":"2.0","id":1}`},
		{"method is not a string", `{"jsonrpc":"2.0","id":1,"method":7}`},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"nothing/there"}`},
		{"unknown tool", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`},
		{"params is an array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}"}, {"zero bytes", "\x00\x00"},
		{"stray answer", `{"jsonrpc":"2.0","id":77,"result":{}}`},
		{"stray error", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`},
		{"cancels an unknown request", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999}}`},
		{"initializes twice", initialize},
		{"float id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`}, {"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`},
		{"big id", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}`},
		{"deep", nested}, {"deep id", `{"jsonrpc":"2.0","id":` + nested + `,"method":"ping"}`},
		{"deep params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":` + nested + `}}`},
		{"large", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`},
		{"large and not JSON", strings.Repeat("x", 20<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startStdioServer(t, config)
			p.write(t, c.line)
			for _, m := range p.checkServes(t) {
				if id := m.Get("id"); m.Get("result").Exists() && gjson.Get(c.line, "id").Raw != id.Raw {
					t.Errorf("got the answer %.500s, want the id of the request", m.Raw)
				}
				if e := m.Get("error"); e.Exists() && (e.Get("code").Type != gjson.Number || e.Get("message").String() == "") {
					t.Errorf("got the error %.500s, want a code and a message", m.Raw)
				}
			}
		})
	}
}

// TestStdioSlowReader sends requests whose answers exceed the pipes' buffers before it reads anything. No answer may be lost.
func TestStdioSlowReader(t *testing.T) {
	t.Parallel()
	p := startStdioServer(t, newSlowService(t).config(t))
	const requests = 300
	written := make(chan error, 1)
	go func() {
		for i := range requests {
			if _, err := io.WriteString(p.in, p.chainRequest(fmt.Sprint(i), `map(1..3000, "ab")`)+"\n"); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	time.Sleep(200 * time.Millisecond) // let the pipes fill up
	seen := map[string]bool{}
	for len(seen) < requests {
		m := p.read(t)
		if got := gjson.Get(m.Get("result.content.0.text").String(), "#").Int(); got != 3000 {
			t.Fatalf("%d elements, want 3000: %.300s", got, m.Raw)
		}
		seen[m.Get("id").Raw] = true
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestStdioCancel checks that a cancelled call ends its call of a service, and that the server keeps serving.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	slow := newSlowService(t)
	p := startStdioServer(t, slow.config(t))
	p.startSlowCall(t, slow)
	p.write(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}`)
	await(t, slow.ended, "the call is cancelled")
	p.checkServes(t)
}

// startSlowCall starts a call that does not end by itself.
func (p *stdioServer) startSlowCall(t *testing.T, slow *slowService) {
	t.Helper()
	params, err := json.Marshal(slow.chain())
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":%s}`, params))
	await(t, slow.arrived, "the call arrives")
}

// TestStdioDisconnect disconnects the client in every possible way during a call. The server and the call must end.
func TestStdioDisconnect(t *testing.T) {
	t.Parallel()
	for name, disconnect := range map[string]func(*stdioServer) error{
		"signal":          func(p *stdioServer) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		"input closes":    func(p *stdioServer) error { return p.in.Close() },
		"both ends close": func(p *stdioServer) error { return errors.Join(p.in.Close(), p.pipe.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := newSlowService(t)
			p := startStdioServer(t, slow.config(t))
			p.startSlowCall(t, slow)
			if err := disconnect(p); err != nil {
				t.Fatal(err)
			}
			await(t, slow.ended, "the call is cancelled")
			p.wantQuickEnd(t)
		})
	}
	t.Run("input closes during a subscription", func(t *testing.T) {
		t.Parallel()
		p := startStdioServer(t, newSlowService(t).config(t))
		p.write(t, `{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		p.checkServes(t)
		p.in.Close()
		p.wantQuickEnd(t)
	})
}

// wantQuickEnd checks that the server ends before the grace period for running calls.
func (p *stdioServer) wantQuickEnd(t *testing.T) {
	t.Helper()
	start := time.Now()
	watchdog := time.AfterFunc(clitest.TooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	_, _ = io.Copy(io.Discard, p.out)
	code := clitest.ExitCode(p.cmd.Wait())
	if signaled := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled(); code != "0" && code != "130" && !signaled {
		t.Errorf("exit status %s, want 0 or 130: %s", code, p.stderr)
	}
	if elapsed := time.Since(start); elapsed > transport.DefaultGrace*9/10 {
		t.Errorf("the server ended after %v, want less than the grace period %v", elapsed, transport.DefaultGrace)
	}
}
