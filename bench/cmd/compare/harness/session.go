package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// The time limits of a server's start until it answers, and of a call.
const (
	StartLimit = time.Minute
	callLimit  = time.Minute
)

// Session is a client of the SDK that is connected to a server, as a host is.
type Session struct {
	*sdk.ClientSession
	Spent   Tokens
	bench   *Bench
	process *proc.Process // the server, which ends with the session; nil: it is another's
	tap     *tap
}

// Tokens counts the tokens of a session so far, as a model has them in its context.
type Tokens struct {
	List    int // the tokens of what a host shows first: the tool list and the server's instructions
	Written int // the tokens of calls, written as {"name":…,"arguments":…}
	Read    int // the tokens of the text of answers
	Calls   int
}

// All returns all tokens.
func (t Tokens) All() int { return t.List + t.Written + t.Read }

// Since returns what was counted after before.
func (t Tokens) Since(before Tokens) Tokens {
	return Tokens{t.List - before.List, t.Written - before.Written, t.Read - before.Read, t.Calls - before.Calls}
}

// Open starts a server over stdio, which ends when ctx ends or the session is closed.
func (b *Bench) Open(ctx context.Context, cmd *exec.Cmd) *Session {
	stdin, stdout := Must(cmd.StdinPipe()), Must(cmd.StdoutPipe())
	process := Must(proc.Start(ctx, cmd))
	s, err := b.connect(ctx, &sdk.IOTransport{Reader: stdout, Writer: stdin}, "")
	if err != nil {
		ended := process.Close() // after this, the output is complete
		Check(errors.Join(fmt.Errorf("no greeting: %w: %s", err, lastLine(process.Output())), ended))
	}
	s.process = process
	return s
}

// idleLimit is shorter than the time for which servers keep idle connections: a call must not use one that is just being closed.
const idleLimit = time.Second

// Dial connects to a server over HTTP with a version of MCP. A session has connections of its own, so that many do not share one pool.
func (b *Bench) Dial(ctx context.Context, url, protocol string) (*Session, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: idleLimit}, Timeout: time.Minute}
	return b.connect(ctx, &sdk.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true, HTTPClient: client}, protocol)
}

func (b *Bench) connect(ctx context.Context, t sdk.Transport, protocol string) (s *Session, err error) {
	s = &Session{bench: b, tap: &tap{Transport: t}}
	ctx, stop := context.WithTimeout(ctx, StartLimit)
	defer stop()
	client := sdk.NewClient(&sdk.Implementation{Name: "compare", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	var options *sdk.ClientSessionOptions
	if t = s.tap; protocol != "" { // over HTTP the SDK's client asks its transport for more than reading, so there is no tap
		t, options = s.tap.Transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol}
	}
	s.ClientSession, err = client.Connect(ctx, t, options)
	return s, err
}

// End ends the session, and the server with all processes that it has started. What a server does at its end is not measured.
func (s *Session) End() {
	_ = s.Close()
	if s.process != nil {
		_ = s.process.Close()
	}
}

// CountList counts what a host shows a model of the server over stdio: the tool list as it was sent, all pages, and the instructions. It
// returns the list and the number of tools.
func (s *Session) CountList(ctx context.Context) (list string, tools int) {
	ctx, stop := context.WithTimeout(ctx, StartLimit)
	defer stop()
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		FailIf(err != nil, "no list: %w: %s", err, lastLine(s.process.Output()))
		list += string(s.tap.last())
		tools += len(page.Tools)
		cursor = page.NextCursor
	}
	s.Spent.List += s.bench.Count(list)
	if greeting := s.InitializeResult(); greeting != nil {
		s.Spent.List += s.bench.Count(greeting.Instructions)
	}
	return list, tools
}

// Call calls a tool with arguments in JSON, counts the call and its answer, and returns the text of the answer. A tool must not fail.
func (s *Session) Call(ctx context.Context, tool, args string) (text string) {
	text = Must(s.Answer(ctx, tool, json.RawMessage(args)))
	s.Spent.Calls++
	s.Spent.Written += s.bench.Count(`{"name":"` + tool + `","arguments":` + args + `}`)
	s.Spent.Read += s.bench.Count(text)
	return text
}

// Answer calls a tool and returns the text of the answer, without counting either. A failed tool is an error.
func (s *Session) Answer(ctx context.Context, tool string, args any) (string, error) {
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	result, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	var text strings.Builder
	for _, block := range result.Content {
		if t, ok := block.(*sdk.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	if result.IsError {
		return "", fmt.Errorf("%s failed: %.1000s", tool, text.String())
	}
	return text.String(), nil
}

// Config is a configuration of onecall.
type Config map[string]any

// ServeOnecall returns the command of onecall with a configuration, in a file of that name.
func (b *Bench) ServeOnecall(ctx context.Context, name string, c Config, flags ...string) *exec.Cmd {
	path := filepath.Join(b.Temp, name+".json")
	WriteFile(path, Must(json.Marshal(c)))
	return b.Cmd(b.Onecall(ctx), append([]string{"serve", "--config", path}, flags...)...)
}

// OpenOnecall starts onecall over stdio, and returns when all its functions are available.
func (b *Bench) OpenOnecall(ctx context.Context, name string, c Config) *Session {
	s := b.Open(ctx, b.ServeOnecall(ctx, name, c))
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		text, err := s.Answer(ctx, "info", json.RawMessage(`{}`))
		switch state := gjson.Get(text, "state").Str; {
		case state == "ready":
			return s
		case err != nil || state == "degraded" || time.Since(began) > StartLimit:
			s.End()
			Check(errors.Join(err, fmt.Errorf("onecall's sources have not started: %s", proc.Scrub(text))))
		}
	}
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// Listen starts a server that prints its URL, and returns both. The caller closes the server.
func Listen(ctx context.Context, cmd *exec.Cmd) (*proc.Process, string) {
	p := Must(proc.Start(ctx, cmd))
	url, err := p.Await(listening, StartLimit)
	if err != nil {
		Check(errors.Join(err, p.Close()))
	}
	return p, url
}

// FreePort returns an address of loopback at which no program listened a moment ago, for programs that do not tell which port they take.
func FreePort() (host, port string) {
	l := Must(net.Listen("tcp", "127.0.0.1:0"))
	address := l.Addr().String()
	Check(l.Close())
	host, port, err := net.SplitHostPort(address)
	Check(err)
	return host, port
}

// tap keeps the last answer as it was received. The SDK returns it only decoded.
type tap struct {
	sdk.Transport
	sdk.Connection
	mu     sync.Mutex
	result json.RawMessage
}

// Connect implements sdk.Transport.
func (t *tap) Connect(ctx context.Context) (_ sdk.Connection, err error) {
	t.Connection, err = t.Transport.Connect(ctx)
	return t, err
}

// Read implements sdk.Connection.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := t.Connection.Read(ctx)
	if response, ok := message.(*jsonrpc.Response); ok && err == nil {
		t.mu.Lock()
		t.result = response.Result
		t.mu.Unlock()
	}
	return message, err
}

func (t *tap) last() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result
}

// lastLine returns the last line of a program's output, which usually is the reason of a failure.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
