package mcptest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Patience is how long a test waits before it fails. Passing tests wait far less.
const Patience = 30 * time.Second

// Serve runs serve on a loopback listener until the test ends, and returns the URL of the listener.
func Serve(t testing.TB, serve func(ctx context.Context, l net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeHTTP: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// ServeStdio is a function that serves one client until ctx is done. It reads from in and writes to out.
type ServeStdio = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error

// Stdio runs serve until the test ends, and returns the session of a client that is connected to it through pipes.
func Stdio(t testing.TB, o *sdk.ClientOptions, serve ServeStdio) *sdk.ClientSession {
	t.Helper()
	return StdioOf(t, o, "", serve)
}

// StdioOf is like Stdio, for a client that asks for a version of MCP; "" means the newest.
func StdioOf(t testing.TB, o *sdk.ClientOptions, version string, serve ServeStdio) *sdk.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- serve(ctx, fromClient, toClient)
		toClient.Close()
	}()
	session := Connect(t, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, o, version)
	t.Cleanup(func() {
		session.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	return session
}

// Connect connects a client over transport until the test ends. The client asks for a version of MCP; "" means the newest.
func Connect(t testing.TB, transport sdk.Transport, o *sdk.ClientOptions, version string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// Ask calls a tool and returns the text of its result; failed reports whether the result is an error.
func Ask(t testing.TB, session *sdk.ClientSession, tool, args string) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	return TextOf(t, result), result.IsError
}

// TextOf returns the text of a result. The test fails unless the result has one content block and no structured content.
func TextOf(t testing.TB, result *sdk.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 || result.StructuredContent != nil {
		t.Fatalf("got %d content blocks and structured content %v, want one block and no structured content", len(result.Content),
			result.StructuredContent)
	}
	return result.Content[0].(*sdk.TextContent).Text
}
