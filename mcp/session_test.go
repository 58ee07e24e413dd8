package mcp_test

import (
	"context"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// keeper offers a function that keeps a value in the session of its caller. ended gets a token when that session ends.
type keeper struct{ ended chan struct{} }

func (k keeper) SessionEnded() { k.ended <- struct{}{} }

func (k keeper) Functions() []steps.Function {
	return []steps.Function{{Spec: steps.Spec{Name: "keep.it", Effect: steps.Read},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			steps.SessionOf(ctx).Value("it", func() any { return k })
			return []byte("1"), nil
		}}}
}

func (k keeper) Close() error { return nil }

// TestSessionEnds: what sources keep for a session learns of its end, when the client leaves, over HTTP and stdio, and with the server.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		connect func(*testing.T, *testServer) *sdk.ClientSession
		end     func(*testServer, *sdk.ClientSession)
	}{
		"stdio": {func(t *testing.T, s *testServer) *sdk.ClientSession { return s.stdio(t, writer, nil) },
			func(_ *testServer, c *sdk.ClientSession) { c.Close() }},
		"http":       {httpSession, func(_ *testServer, c *sdk.ClientSession) { c.Close() }},
		"the server": {httpSession, func(s *testServer, _ *sdk.ClientSession) { s.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, k := serve(t, nil), keeper{make(chan struct{}, 10)}
			if err := s.catalog.Add("keep", k); err != nil {
				t.Fatal(err)
			}
			client := test.connect(t, s)
			for range 2 {
				if text, failed := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"keep.it"}]}`); failed {
					t.Fatal(text)
				}
			}
			if len(k.ended) > 0 {
				t.Fatal("told before the end")
			}
			test.end(s, client)
			select {
			case <-k.ended:
			case <-time.After(mcptest.Patience):
				t.Fatal("not told of the end")
			}
		})
	}
}

// httpSession returns a client with a session over HTTP.
func httpSession(t *testing.T, s *testServer) *sdk.ClientSession {
	url := s.serveAs(t, &transport.Access{Anyone: *writer})
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, nil, "2025-11-25")
}
