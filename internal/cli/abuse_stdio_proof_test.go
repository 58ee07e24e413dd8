//go:build unix

package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/transport"
)

// piped is `onecall serve` on pipes.
type piped struct {
	in     io.WriteCloser
	pipe   io.Closer // that out reads
	out    *bufio.Reader
	cmd    *exec.Cmd
	stderr *tail
	asked  int
}

// servePiped starts a server on pipes, and begins a session. When the test ends and the server still runs, the end of its input ends it.
func servePiped(t *testing.T, config string, args ...string) *piped {
	t.Helper()
	p := &piped{cmd: self(t, t.TempDir(), append([]string{"serve", "--config", config}, args...)...), stderr: &tail{}}
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
		t.Fatalf("initialize: %s", m.Raw)
	}
	p.write(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

// finish ends the server's input, upon which it must end well.
func (p *piped) finish(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	p.in.Close()
	watchdog := time.AfterFunc(tooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	_, _ = io.Copy(io.Discard, p.out)
	if code := exitCodeOf(p.cmd.Wait()); code != "0" && code != "130" {
		t.Errorf("the server ended with %s: %s", code, p.stderr)
	}
}

func (p *piped) write(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatalf("%v: %s", err, p.stderr)
	}
}

// read is the next message of the server.
func (p *piped) read(t *testing.T) gjson.Result {
	t.Helper()
	watchdog := time.AfterFunc(tooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	line, err := p.out.ReadString('\n')
	if err != nil || !gjson.Valid(line) {
		t.Fatalf("%v: %q: %s", err, line, p.stderr)
	}
	return gjson.Parse(line)
}

// answer reads until the answer to a request, and gives what else came before.
func (p *piped) answer(t *testing.T, id string) (answer gjson.Result, others []gjson.Result) {
	t.Helper()
	for {
		m := p.read(t)
		if m.Get("id").Raw == id && !m.Get("method").Exists() {
			return m, others
		}
		others = append(others, m)
	}
}

// chain is a request that runs a chain.
func (p *piped) chain(id, expression string) string {
	text, err := json.Marshal(map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": expression}}}})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"chain","arguments":%s}}`, id, text)
}

// alive wants the server to run a chain, and gives what it said before.
func (p *piped) alive(t *testing.T) []gjson.Result {
	t.Helper()
	p.asked++
	id := fmt.Sprintf(`"alive %d"`, p.asked)
	p.write(t, p.chain(id, "6 * 7"))
	m, others := p.answer(t, id)
	if m.Get("result.content.0.text").String() != "42" {
		t.Fatalf("the server answers %s", m.Raw)
	}
	return others
}

// TestStdioAbuse writes to a server what no client should. It goes on serving, and nothing but the protocol comes out.
func TestStdioAbuse(t *testing.T) {
	t.Parallel()
	config := newSlowService(t).config(t)
	nested := strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000)
	for _, c := range []struct{ name, line string }{
		{"blank", ""}, {"blanks", "  \t "}, {"no JSON", "hello"}, {"half a message", `{"jsonrpc":"2.0","id":1,"method":"tools/list"`}, {"two messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`},
		{"null", "null"}, {"number", "7"}, {"empty batch", "[]"}, {"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`}, {"object", "{}"},
		{"version of JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"ping"}`}, {"no method", `{"jsonrpc":"2.0","id":1}`}, {"method is no text", `{"jsonrpc":"2.0","id":1,"method":7}`},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"nothing/there"}`}, {"unknown tool", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`},
		{"params is an array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`}, {"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}"}, {"zero bytes", "\x00\x00"},
		{"stray answer", `{"jsonrpc":"2.0","id":77,"result":{}}`}, {"stray error", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`},
		{"cancels nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999}}`}, {"begins again", initialize},
		{"float id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`}, {"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`}, {"object id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`},
		{"big id", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}`},
		{"deep", nested}, {"deep id", `{"jsonrpc":"2.0","id":` + nested + `,"method":"ping"}`}, {"deep params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":` + nested + `}}`},
		{"large", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`}, {"large and no JSON", strings.Repeat("x", 20<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := servePiped(t, config)
			p.write(t, c.line)
			for _, m := range p.alive(t) {
				if id := m.Get("id"); m.Get("result").Exists() && gjson.Get(c.line, "id").Raw != id.Raw {
					t.Errorf("the answer has another id: %.500s", m.Raw)
				}
				if e := m.Get("error"); e.Exists() && (e.Get("code").Type != gjson.Number || e.Get("message").String() == "") {
					t.Errorf("an error without code or message: %.500s", m.Raw)
				}
			}
		})
	}
}

// TestStdioSlowReader asks for much more than pipes hold, and reads only when all is asked: nothing is lost.
func TestStdioSlowReader(t *testing.T) {
	t.Parallel()
	p := servePiped(t, newSlowService(t).config(t))
	const requests = 300
	written := make(chan error, 1)
	go func() {
		for i := range requests {
			if _, err := io.WriteString(p.in, p.chain(fmt.Sprint(i), `map(1..3000, "ab")`)+"\n"); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	time.Sleep(200 * time.Millisecond) // what is wanted is that nobody reads for a while
	seen := map[string]bool{}
	for len(seen) < requests {
		m := p.read(t)
		if got := gjson.Get(m.Get("result.content.0.text").String(), "#").Int(); got != 3000 {
			t.Fatalf("%.300s", m.Raw)
		}
		seen[m.Get("id").Raw] = true
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestStdioCancel wants what a cancelled call does to end.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	slow := newSlowService(t)
	p := servePiped(t, slow.config(t))
	p.waits(t, slow)
	p.write(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}`)
	await(t, slow.ended, "the call is cancelled")
	p.alive(t)
}

// waits begins a call that does not end by itself.
func (p *piped) waits(t *testing.T, slow *slowService) {
	t.Helper()
	params, err := json.Marshal(slow.chain())
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":%s}`, params))
	await(t, slow.arrived, "the call arrives")
}

// TestStdioEnds has a client go in each of the ways that there are, while a call runs: server and call end.
func TestStdioEnds(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*piped) error{
		"signal":          func(p *piped) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		"input closes":    func(p *piped) error { return p.in.Close() },
		"both ends close": func(p *piped) error { return errors.Join(p.in.Close(), p.pipe.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := newSlowService(t)
			p := servePiped(t, slow.config(t))
			p.waits(t, slow)
			if err := leave(p); err != nil {
				t.Fatal(err)
			}
			await(t, slow.ended, "the call is cancelled")
			p.endsSoon(t)
		})
	}
	t.Run("signal twice", func(t *testing.T) {
		t.Parallel()
		slow := newSlowService(t)
		p := servePiped(t, slow.config(t))
		p.waits(t, slow)
		for range 2 {
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond) // two signals that come at once may be one
		}
		p.endsSoon(t)
	})
	t.Run("input closes while it listens", func(t *testing.T) {
		t.Parallel()
		p := servePiped(t, newSlowService(t).config(t))
		p.write(t, `{"jsonrpc":"2.0","id":"ear","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		p.alive(t)
		p.in.Close()
		p.endsSoon(t)
	})
}

// endsSoon wants a server with nothing left to do to end, and not only when the patience is over that calls have.
func (p *piped) endsSoon(t *testing.T) {
	t.Helper()
	from := time.Now()
	watchdog := time.AfterFunc(tooLong, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	_, _ = io.Copy(io.Discard, p.out)
	code := exitCodeOf(p.cmd.Wait())
	if signalled := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled(); code != "0" && code != "130" && !signalled {
		t.Errorf("the server ended with %s: %s", code, p.stderr)
	}
	if took := time.Since(from); took > transport.DefaultGrace*9/10 {
		t.Errorf("the server took %v to end", took)
	}
}
