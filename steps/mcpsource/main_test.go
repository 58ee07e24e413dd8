package mcpsource

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	ossignal "os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// serverEnv names the server that the test binary plays instead of running tests.
const serverEnv = "ONECALL_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serverEnv); kind != "" {
		play(kind)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the main function of the servers that tests start as child processes.
func play(kind string) {
	if serve, ok := badServers[kind]; ok {
		serve()
		return
	}
	switch kind {
	case "good":
		_ = goodServer(nil).Run(context.Background(), &sdk.StdioTransport{})
	case "full":
		_ = fullServer().Run(context.Background(), &sdk.StdioTransport{})
	default:
		fmt.Fprintln(os.Stderr, "no such server")
		os.Exit(3)
	}
}

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`

// goodServer is a server of the SDK that does what tools do. stop ends the calls that wait.
func goodServer(stop <-chan struct{}) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1.2"}, &sdk.ServerOptions{PageSize: 3})
	yes := true
	add := func(name string, annotations *sdk.ToolAnnotations, schema string, h func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", Annotations: annotations, InputSchema: json.RawMessage(schema)}, h)
	}
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true}
	add("get", reads, nameSchema, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if name := gjson.GetBytes(r.Params.Arguments, "name").String(); name != "none" && gjson.GetBytes(r.Params.Arguments, "name").Type == gjson.String {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "see structuredContent"}},
				StructuredContent: json.RawMessage(`{"name":` + gjson.GetBytes(r.Params.Arguments, "name").Raw + `,"n":12345678901234567890,"x":1.50}`)}, nil
		}
		r1 := text("there is no such thing")
		r1.IsError = true
		return r1, nil
	})
	add("put", &sdk.ToolAnnotations{IdempotentHint: true}, nameSchema, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("put"), nil
	})
	add("remove", &sdk.ToolAnnotations{DestructiveHint: &yes}, nameSchema, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("removed"), nil
	})
	add("echo", reads, `{"type":"object"}`, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	add("pid", reads, `{"type":"object"}`, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid())), nil
	})
	add("wait", nil, `{"type":"object"}`, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-stop: // without a session a server is not told of cancellations
		}
		return text("waited"), nil
	})
	add("die", nil, `{"type":"object"}`, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "dying of tests")
		os.Exit(7)
		return nil, nil
	})
	add("media", reads, `{"type":"object"}`, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: `{"a": 1}`}, &sdk.ImageContent{Data: []byte("12345"), MIMEType: "image/png"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "a://t", MIMEType: "text/plain", Text: "hi"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "a://b", MIMEType: "application/pdf", Blob: []byte("1234567")}},
			&sdk.ResourceLink{URI: "a://l", Name: "l"}}}, nil
	})
	add("tell", reads, `{"type":"object"}`, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			if token := r.Params.GetProgressToken(); token != nil {
				if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Total: 3, Message: "step"}); err != nil {
					return nil, err
				}
			}
		}
		//nolint:staticcheck // servers still log
		if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "l", Data: map[string]int{"x": 1}}); err != nil {
			return nil, err
		}
		return text("told"), nil
	})
	more := func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddTool(&sdk.Tool{Name: "added", Description: "New.", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("added"), nil })
		s.RemoveTools("remove")
		return text("more"), nil
	}
	add("more", nil, `{"type":"object"}`, more)
	add("big", reads, `{"type":"object"}`, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("x", int(gjson.GetBytes(r.Params.Arguments, "bytes").Int()))), nil
	})
	return s
}

func text(t string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}
}

// httpServer serves a server over Streamable HTTP.
func httpServer(s *sdk.Server, o *sdk.StreamableHTTPOptions) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
}

// answerText is the message that a server of raw has got last.
var answerText string

// raw plays a server by hand: answer gets each request, and writes what it likes.
func raw(answer func(method string, id, params gjson.Result)) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		m := gjson.Parse(in.Text())
		answerText = in.Text()
		answer(m.Get("method").Str, m.Get("id"), m.Get("params"))
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// greet answers what comes before the first call; false when the method is another.
func greet(method string, id gjson.Result, tools string) bool {
	switch method {
	case "server/discover":
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, id.Raw)
	case "initialize":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bad","version":"0"}}}`, id.Raw)
	case "tools/list":
		say(`{"result":{"tools":[%s]},"jsonrpc":"2.0","id":%s}`, tools, id.Raw)
	case "tools/call":
		return false
	}
	return true
}

const oneTool = `{"name":"a","description":"A.","icons":[{"src":"x"}],"_meta":{"x":1},"inputSchema":{"type":"object"}}`

// badServers do what servers should not.
var badServers = map[string]func(){
	"silent":  func() { raw(func(string, gjson.Result, gjson.Result) {}) },
	"at once": func() { fmt.Fprintln(os.Stderr, "no api key: "+os.Getenv("SHELF_TOKEN")); os.Exit(4) },
	"prints": func() {
		for range 1 << 16 {
			say("Hello, I am a server that does not know the protocol")
		}
		time.Sleep(time.Hour)
	},
	"greeting": func() {
		say("Server ready at token %s\n\n[1] {x", os.Getenv("SHELF_TOKEN"))
		raw(func(method string, id, _ gjson.Result) {
			if !greet(method, id, oneTool) {
				say("debug: calling")
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, id.Raw)
			}
		})
	},
	"mute in calls": func() {
		raw(func(method string, id, _ gjson.Result) { greet(method, id, oneTool) })
	},
	"old": func() { // does not answer what it does not know
		raw(func(method string, id, _ gjson.Result) {
			if method != "server/discover" && !greet(method, id, oneTool) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id.Raw)
			}
		})
	},
	"stderr": func() {
		go func() {
			line := strings.Repeat("e", 1<<16)
			for {
				fmt.Fprint(os.Stderr, line)
			}
		}()
		raw(func(method string, id, _ gjson.Result) {
			if !greet(method, id, oneTool) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, id.Raw)
			}
		})
	},
	"twice": func() {
		raw(func(method string, id, _ gjson.Result) {
			if !greet(method, id, oneTool+`,{"name":"a","description":"Second.","inputSchema":{}},null,{"name":5},{"name":"a b"},{"name":"a/c"},{"name":"a.c"}`) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id.Raw)
			}
		})
	},
	"many": func() {
		raw(func(method string, id, params gjson.Result) {
			if method != "tools/list" {
				greet(method, id, "")
				return
			}
			from := int(params.Get("cursor").Int())
			var tools []string
			for i := from; i < from+500; i++ {
				tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
			}
			next := ""
			if from+500 < 10_000 {
				next = fmt.Sprintf(`,"nextCursor":"%d"`, from+500)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]%s}}`, id.Raw, strings.Join(tools, ","), next)
		})
	},
	"endless": func() {
		n := 0
		raw(func(method string, id, _ gjson.Result) {
			if method != "tools/list" {
				greet(method, id, "")
				return
			}
			n++
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t%d"}],"nextCursor":"%d"}}`, id.Raw, n, n%3+1)
		})
	},
	"huge": func() {
		raw(func(method string, id, params gjson.Result) {
			if greet(method, id, oneTool) {
				return
			}
			switch params.Get("arguments.how").Str {
			case "first":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id.Raw, strings.Repeat(`\"id\":1}`, 12<<20))
			case "last":
				say(`{"result":{"id":-1,"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat("x", 100<<20), id.Raw)
			default:
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, id.Raw)
			}
		})
	},
	"version": func() {
		raw(func(method string, id, _ gjson.Result) {
			if method == "initialize" {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"bad","version":"0"}}}`, id.Raw)
				return
			}
			greet(method, id, "")
		})
	},
	"deaf": func() { // reads nothing once it is greeted
		calls := make(chan struct{})
		raw(func(method string, id, _ gjson.Result) {
			if greet(method, id, oneTool); method == "tools/list" {
				<-calls
			}
		})
	},
	"asks": func() { // what its client answers first is the result of its tool
		var call gjson.Result
		raw(func(method string, id, params gjson.Result) {
			switch {
			case method == "" && call.Exists():
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, call.Raw, answerText)
				call = gjson.Result{}
			case method != "" && !greet(method, id, oneTool):
				call = id
				for i := range max(params.Get("arguments.times").Int(), 1) {
					say(`{"jsonrpc":"2.0","id":"q%d","method":%q,"params":{}}`, i, params.Get("arguments.method").Str)
				}
				if params.Get("arguments.cancel").Bool() {
					time.Sleep(50 * time.Millisecond)
					say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q0"}}`)
				}
			}
		})
	},
	"floods": func() { // asks without end once it is called, and reads nothing more
		raw(func(method string, id, _ gjson.Result) {
			if !greet(method, id, oneTool) {
				for i := range 300_000 {
					say(`{"jsonrpc":"2.0","id":"f%d","method":"sampling/createMessage","params":{}}`, i)
				}
				time.Sleep(time.Hour)
			}
		})
	},
	"stubborn": func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		raw(func(method string, id, _ gjson.Result) { greet(method, id, oneTool) })
		time.Sleep(time.Hour)
	},
	"parent": func() { // as npx: the server is a grandchild's sibling
		ossignal.Ignore(syscall.SIGTERM)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), serverEnv+"=sleeper")
		if err := child.Start(); err != nil {
			os.Exit(5)
		}
		_ = os.WriteFile(os.Getenv("PIDS"), fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid), 0o600)
		raw(func(method string, id, _ gjson.Result) {
			if !greet(method, id, oneTool) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id.Raw)
			}
		})
		if os.Getenv("LEAVES") == "" {
			time.Sleep(time.Hour)
		}
	},
	"sleeper": func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		time.Sleep(time.Hour)
	},
}

// child are the options of a server that the test binary plays.
func child(t testing.TB, kind string) *Options {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Options{Name: "shelf", Command: exe, Env: map[string]string{serverEnv: kind}}
}

// open makes a source that is closed with the test.
func open(t testing.TB, o *Options) *Source {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// patience is how long a test waits for what has to come; it fails long before on a machine that is not overloaded.
const patience = 60 * time.Second

// await waits until the source is in one of the states.
func await(t testing.TB, s *Source, states ...steps.State) steps.Status {
	t.Helper()
	return until(t, s, func() bool {
		for _, state := range states {
			if s.Status().State == state {
				return true
			}
		}
		return false
	})
}

// until waits until the condition holds, looking again at every change and now and then.
func until(t testing.TB, s *Source, holds func() bool) steps.Status {
	t.Helper()
	changes := make(chan struct{}, 1)
	s.Watch(func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	})
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-changes:
		case <-tick.C:
		case <-late:
			t.Fatalf("the source does not get there: %+v", s.Status())
		}
	}
	return s.Status()
}

func function(t testing.TB, s *Source, name string) *steps.Function {
	t.Helper()
	for _, fn := range s.Functions() {
		if fn.Name == name {
			return &fn
		}
	}
	t.Fatalf("there is no function %s", name)
	return nil
}

// do calls a function, which has to succeed.
func do(t testing.TB, s *Source, name, args string) string {
	t.Helper()
	result, err := function(t, s, name).Call(t.Context(), []byte(args))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(result)
}

// fails calls a function, which has to fail with the code.
func fails(ctx context.Context, t testing.TB, s *Source, name, args string, code fault.Code) *fault.Error {
	t.Helper()
	result, err := function(t, s, name).Call(ctx, []byte(args))
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("%s: %s, %v, want %s", name, result, err, code)
	}
	return f
}
