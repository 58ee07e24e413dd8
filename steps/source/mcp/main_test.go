package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// serverEnv names the server that the test binary plays instead of running tests.
const serverEnv = "ONECALL_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serverEnv); kind != "" {
		record("begun ")
		play(kind)
		record("left ")
		os.Exit(0)
	}
	polltest.MoreParallel()
	os.Exit(m.Run())
}

// record appends to the file STARTS, if set, when a server starts and when it exits by itself.
func record(what string) {
	if file, err := os.OpenFile(os.Getenv("STARTS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_, _ = file.WriteString(what)
		_ = file.Close()
	}
}

// play is the main function of the servers that tests start as child processes.
func play(kind string) {
	if serve, ok := badServers[kind]; ok {
		serve()
		return
	}
	if serve, ok := lateServers[kind]; ok {
		serve()
		return
	}
	switch kind {
	case "good":
		_ = goodServer(nil).Run(context.Background(), &sdk.StdioTransport{})
	case "slow": // reads nothing until both server/discover and initialize have arrived
		in := bufio.NewReader(os.Stdin)
		discover, _ := in.ReadString('\n')
		initialize, _ := in.ReadString('\n')
		both := io.MultiReader(strings.NewReader(discover+initialize), in)
		_ = fullServer().Run(context.Background(), &sdk.IOTransport{Reader: io.NopCloser(both), Writer: os.Stdout})
	case "scripted":
		playScript()
	case "full":
		_ = fullServer().Run(context.Background(), &sdk.StdioTransport{})
	case "offering":
		_ = offeringServer().Run(context.Background(), &sdk.StdioTransport{})
	default:
		fmt.Fprintln(os.Stderr, "no such server")
		os.Exit(3)
	}
}

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`

// goodServer is a well-behaved server of the SDK. stop ends waiting calls.
func goodServer(stop <-chan struct{}) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "shelf", Version: "1.2"}, &sdk.ServerOptions{PageSize: 3})
	yes := true
	add := func(name string, annotations *sdk.ToolAnnotations, schema string, h sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", Annotations: annotations, InputSchema: json.RawMessage(schema)}, h)
	}
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true}
	add("get", reads, nameSchema, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if name := gjson.GetBytes(r.Params.Arguments, "name"); name.String() != "none" && name.Type == gjson.String {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "see structuredContent"}},
				StructuredContent: json.RawMessage(`{"name":` + name.Raw + `,"n":12345678901234567890,"x":1.50}`)}, nil
		}
		none := textResult("there is no such thing")
		none.IsError = true
		return none, nil
	})
	add("put", &sdk.ToolAnnotations{IdempotentHint: true}, nameSchema, answering("put"))
	add("remove", &sdk.ToolAnnotations{DestructiveHint: &yes}, nameSchema, answering("removed"))
	add("echo", reads, `{"type":"object"}`, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return textResult(string(r.Params.Arguments)), nil
	})
	add("pid", reads, `{"type":"object"}`, answering(fmt.Sprint(os.Getpid())))
	add("wait", nil, `{"type":"object"}`, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if file := gjson.GetBytes(r.Params.Arguments, "begun").Str; file != "" {
			_ = os.WriteFile(file, nil, 0o600)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-stop: // a server without a session does not receive cancellations
		}
		return textResult("waited"), nil
	})
	add("die", nil, `{"type":"object"}`, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "dying of tests")
		os.Exit(7)
		return nil, nil
	})
	fragile := func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		name := gjson.GetBytes(r.Params.Arguments, "name").Str
		if log, err := os.OpenFile(name+".log", os.O_APPEND|os.O_WRONLY, 0); err == nil {
			_, _ = log.WriteString("called\n")
			_ = log.Close()
		}
		if _, err := os.Stat(name); err == nil {
			_ = os.Remove(name)
			os.Exit(7)
		}
		return textResult("whole"), nil
	}
	add("fragile", reads, nameSchema, fragile)
	add("fragile_plain", nil, nameSchema, fragile)
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
				if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Total: 3,
					Message: "step"}); err != nil {
					return nil, err
				}
			}
		}
		//nolint:staticcheck // servers still log
		if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "l", Data: map[string]int{"x": 1}}); err != nil {
			return nil, err
		}
		return textResult("told"), nil
	})
	add("more", nil, `{"type":"object"}`, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddTool(&sdk.Tool{Name: "added", Description: "New.", InputSchema: json.RawMessage(`{"type":"object"}`)}, answering("added"))
		s.RemoveTools("remove")
		return textResult("more"), nil
	})
	add("big", reads, `{"type":"object"}`, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return textResult(strings.Repeat("x", int(gjson.GetBytes(r.Params.Arguments, "bytes").Int()))), nil
	})
	return s
}

func textResult(t string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}
}

// answering is a tool that always gives the same answer.
func answering(t string) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return textResult(t), nil }
}

// httpServer serves a server over Streamable HTTP.
func httpServer(s *sdk.Server, o *sdk.StreamableHTTPOptions) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
}

// childOptions returns the options of a server that the test binary plays.
func childOptions(t testing.TB, kind string) *mcpsource.Options {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &mcpsource.Options{Name: "shelf", Command: exe, Env: map[string]string{serverEnv: kind}}
}

// openSource opens a source and closes it at the end of the test.
func openSource(t testing.TB, o *mcpsource.Options) *mcpsource.Source {
	t.Helper()
	s, err := mcpsource.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openReady opens a source and waits until its server is ready.
func openReady(t testing.TB, o *mcpsource.Options) *mcpsource.Source {
	t.Helper()
	s := openSource(t, o)
	await(t, s, steps.StateReady)
	return s
}

// patience is how long a test waits for an event. Unless the machine is overloaded, the event comes much earlier.
const patience = polltest.TooLong

// poll waits for a condition that is not announced; false: it did not become true.
func poll(holds func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return polltest.Try(ctx, holds)
}

// await waits until the source is in one of the states.
func await(t testing.TB, s *mcpsource.Source, states ...steps.State) steps.Status {
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

// until waits until the condition holds.
func until(t testing.TB, s *mcpsource.Source, holds func() bool) steps.Status {
	t.Helper()
	if !poll(holds) {
		t.Fatalf("the source did not reach the expected state: %+v", s.Status())
	}
	return s.Status()
}

func function(t testing.TB, s *mcpsource.Source, name string) *steps.Function {
	t.Helper()
	return find(t, s.Functions(), name)
}

// startWaiting calls shelf.wait, and returns when the server has received the call.
func startWaiting(t testing.TB, s *mcpsource.Source) <-chan error {
	t.Helper()
	begun, fn, done := filepath.Join(t.TempDir(), "begun"), function(t, s, "shelf.wait"), make(chan error, 1)
	go func() {
		_, err := fn.Call(context.WithoutCancel(t.Context()), fmt.Appendf(nil, `{"begun":%q}`, begun))
		done <- err
	}()
	if !poll(func() bool { _, err := os.Stat(begun); return err == nil }) {
		t.Fatal("the call did not reach the server")
	}
	return done
}

// mustCall calls a function that must succeed.
func mustCall(t testing.TB, s *mcpsource.Source, name, args string) string {
	t.Helper()
	result, err := function(t, s, name).Call(t.Context(), []byte(args))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(result)
}

// mustFail calls a function that must fail with the code.
func mustFail(ctx context.Context, t testing.TB, s *mcpsource.Source, name, args string, code fault.Code) *fault.Error {
	t.Helper()
	result, err := function(t, s, name).Call(ctx, []byte(args))
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("%s: got %s, %v, want %s", name, result, err, code)
	}
	return f
}
