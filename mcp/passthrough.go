package mcp

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// Passthrough opens what the surfaces flat and hybrid pass through of MCP servers: the tools of each client's own sessions with
// them, resources, prompts, completion, subscriptions, log messages, and what the servers ask of the client. mcp/proxy
// implements it.
type Passthrough interface {
	// Open makes the links of a client.
	Open(c Client) Links
}

// Links are the sessions with MCP servers that belong to one client, opened at their first use.
type Links interface {
	// Answer answers a request of a client, alone or with the help of next.
	Answer(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error)
	// Send sends a message to a client, by next or in place of it.
	Send(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error)
	// Within gives a context with which the functions of the servers are called in the client's own sessions. params are those
	// of the client's own tools/call: what they hold beside name and arguments is handed on; nil: there is none.
	Within(ctx context.Context, params json.RawMessage) context.Context
	// Functions are those that servers list in the client's own sessions, by source. change is another number once they have
	// changed; 0: none is known.
	Functions() (own map[string][]steps.Function, change uint64)
	// Await waits a while until the servers that run have listed their tools in the client's own sessions.
	Await(ctx context.Context)
	// Give is what the client sees now. It is told when that changes.
	Give() *Tools
	// Renew lets go of servers that are not served any more. Sessions with them end once drained is closed.
	Renew(drained <-chan struct{})
	// Close ends all sessions.
	Close()
}

// Client is one client on a surface that passes MCP servers through, or all of the same rights that have no sessions.
type Client interface {
	// Session is the client's; nil: there are several clients.
	Session() *sdk.ServerSession
	// Passthrough is what is served at the moment; nil: nothing is passed through.
	Passthrough() Passthrough
	// View is what the client may use of the catalog.
	View() *steps.View
	// Rights are the client's.
	Rights() steps.Rights
	// Tools are what the client sees now.
	Tools() *Tools
	// Refresh brings what all clients see in step with the sources.
	Refresh()
	// Settle waits for sources that are starting, until ctx ends.
	Settle(ctx context.Context)
	// Changed is closed when the catalog changes.
	Changed() <-chan struct{}
	// Told is an error as the client is told it.
	Told(err error) *jsonrpc.Error
	// Scrubber takes secrets out of what servers say.
	Scrubber() steps.Scrubber
	// Log gets what operators should know.
	Log() *slog.Logger
}

// passes reports whether this toolset passes through what upstreams offer beside tools.
func (f *toolset) passes() bool { return f.surface == SurfaceFlat || f.surface == SurfaceHybrid }

// client is one on a toolset.
type client struct {
	*toolset
	session *sdk.ServerSession // nil: there are several
	own     *variant
}

// open makes what a client of the toolset sees for itself; nil: what all see.
func (f *toolset) open(ss *sdk.ServerSession) *variant {
	p := f.server.o().Passthrough
	if p == nil || !f.passes() {
		return nil
	}
	v := &variant{toolset: f}
	v.links = p.Open(&client{f, ss, v})
	return v
}

// Session implements Client.
func (c *client) Session() *sdk.ServerSession { return c.session }

// Passthrough implements Client.
func (c *client) Passthrough() Passthrough { return c.server.o().Passthrough }

// View implements Client.
func (c *client) View() *steps.View { return c.view() }

// Rights implements Client.
func (c *client) Rights() steps.Rights { return c.rights }

// Tools implements Client.
func (c *client) Tools() *Tools { return c.offerOf(c.own) }

// Refresh implements Client.
func (c *client) Refresh() { c.refresh() }

// Settle implements Client.
func (c *client) Settle(ctx context.Context) { c.settle(ctx) }

// Changed implements Client.
func (c *client) Changed() <-chan struct{} { return c.server.o().Catalog.Changed() }

// Told implements Client.
func (c *client) Told(err error) *jsonrpc.Error { return c.server.wireError(err) }

// Scrubber implements Client.
func (c *client) Scrubber() steps.Scrubber { return c.server.o().Scrubber }

// Log implements Client.
func (c *client) Log() *slog.Logger { return c.server.o().Log }
