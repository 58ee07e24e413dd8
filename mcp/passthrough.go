package mcp

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// Passthrough opens what the surfaces flat and hybrid pass through from MCP servers: the tools in each client's own sessions with
// them, resources, prompts, completion, subscriptions, log messages, and the servers' requests to the client. mcp/proxy
// implements it.
type Passthrough interface {
	// Open opens the upstream sessions of a client.
	Open(c Client) UpstreamSessions
}

// UpstreamSessions are one client's sessions with MCP servers, each opened at its first use.
type UpstreamSessions interface {
	// Answer answers a request of the client, with or without next.
	Answer(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error)
	// Send sends a message to the client, by next or in place of it.
	Send(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error)
	// Within returns a context in which calls of the servers' functions use the client's sessions. params are those of the
	// client's tools/call; members other than name and arguments are passed on. nil: none.
	Within(ctx context.Context, params json.RawMessage) context.Context
	// Functions returns the functions that servers list in the client's own sessions, by source. change is
	// another number after each change; 0: no functions are known.
	Functions() (byUpstream map[string][]steps.Function, change uint64)
	// Await waits until the running servers have listed their tools in the client's sessions, or ctx ends.
	Await(ctx context.Context)
	// CurrentTools returns what the client sees, and records it: the client is notified when it changes.
	CurrentTools() *Tools
	// Reload drops servers that are no longer configured. Their sessions end once drained is closed.
	Reload(drained <-chan struct{})
	// Close ends all sessions.
	Close()
}

// Client is one client on a surface that passes MCP servers through, or all clients of the same rights without sessions.
type Client interface {
	// Session returns the client's session; nil: several clients.
	Session() *sdk.ServerSession
	// Capabilities returns the client's capabilities; of several clients, those that servers need for asking them. nil: none.
	Capabilities() *sdk.ClientCapabilities
	// Passthrough returns the current passthrough; nil: none.
	Passthrough() Passthrough
	// View returns the part of the catalog that the client may use.
	View() *steps.View
	// Rights returns the client's rights.
	Rights() steps.Rights
	// Tools returns the tools that the client sees.
	Tools() *Tools
	// Refresh updates what all clients see from the sources.
	Refresh()
	// AwaitSources waits for sources that are starting, until ctx ends.
	AwaitSources(ctx context.Context)
	// Changed returns a channel that is closed when the catalog changes.
	Changed() <-chan struct{}
	// ClientError returns the error of a request to an upstream as the client may see it.
	ClientError(err error) *jsonrpc.Error
	// Shown tells that the client of a request is about to be shown what a server says that is no function's result: a resource, a prompt, a
	// completion, a question, a message. It has the labels of all that the server's functions give.
	Shown(ctx context.Context, server string)
	// Scrubber removes secrets from what servers say.
	Scrubber() steps.Scrubber
	// Log returns the log for operators.
	Log() *slog.Logger
}

// passes reports whether the toolset passes through features of upstreams other than tools.
func (f *toolset) passes() bool { return f.surface == SurfaceFlat || f.surface == SurfaceHybrid }

// client implements Client.
type client struct {
	*toolset
	session    *sdk.ServerSession // nil: several clients
	asked      askable            // what servers may ask of several clients
	clientView *clientView
}

// openView opens the view of the client with session ss (nil: of all clients without sessions of which servers may ask this). It returns
// nil if nothing is passed through on this surface, so that the client sees what all clients see.
func (f *toolset) openView(ss *sdk.ServerSession, asked askable) *clientView {
	p := f.server.opts().Passthrough
	if p == nil || !f.passes() {
		return nil
	}
	v := &clientView{toolset: f}
	v.upstreams = p.Open(&client{f, ss, asked, v})
	return v
}

// sharedView returns the view of clients without sessions of which servers may ask this; nil: they see what all clients see.
func (f *toolset) sharedView(asked askable) *clientView {
	f.sharedMu.Lock()
	defer f.sharedMu.Unlock()
	v, ok := f.shared[asked]
	if !ok {
		v = f.openView(nil, asked)
		f.shared[asked] = v
	}
	return v
}

// sharedViews returns the views that clients without sessions have.
func (f *toolset) sharedViews() (all []*clientView) {
	f.sharedMu.Lock()
	defer f.sharedMu.Unlock()
	for _, v := range f.shared {
		if v != nil {
			all = append(all, v)
		}
	}
	return all
}

// Capabilities implements Client.
func (c *client) Capabilities() *sdk.ClientCapabilities {
	if c.session == nil {
		return c.asked.capabilities()
	}
	if params := c.session.InitializeParams(); params != nil {
		return params.Capabilities
	}
	return nil
}

// Session implements Client.
func (c *client) Session() *sdk.ServerSession { return c.session }

// Passthrough implements Client.
func (c *client) Passthrough() Passthrough { return c.server.opts().Passthrough }

// View implements Client.
func (c *client) View() *steps.View { return c.view() }

// Rights implements Client.
func (c *client) Rights() steps.Rights { return c.rights }

// Tools implements Client.
func (c *client) Tools() *Tools { return c.offerOf(c.clientView) }

// Refresh implements Client.
func (c *client) Refresh() { c.refresh() }

// AwaitSources implements Client.
func (c *client) AwaitSources(ctx context.Context) { c.awaitSources(ctx) }

// Changed implements Client.
func (c *client) Changed() <-chan struct{} { return c.server.opts().Catalog.Changed() }

// ClientError implements Client.
func (c *client) ClientError(err error) *jsonrpc.Error {
	f := c.server.clientError(err)
	if f.Code == jsonrpc.CodeMethodNotFound { // other codes keep the HTTP status that MCP asks for
		return transport.Verbatim(f)
	}
	return f
}

// Shown implements Client.
func (c *client) Shown(ctx context.Context, server string) {
	o, request, id := c.server.opts(), transport.RequestIn(ctx), ""
	if request != nil {
		id = request.Caller.ID
	}
	switch {
	case o.Labels == nil:
		return
	case c.session != nil:
		n := c.server.transport.Session(c.session)
		if n == nil { // it has ended
			return
		}
		ctx = steps.WithSession(ctx, n.HandlerState.(*session).stored)
	case request == nil: // a message to no client in particular
		return
	}
	var labels []string
	for _, entry := range o.Catalog.Registry().All() {
		if spec := entry.Spec(); spec.Source() == server {
			for _, given := range spec.Gives {
				labels = append(labels, given.Label)
			}
		}
	}
	if len(labels) > 0 {
		o.Labels(ctx, id, nil).Shown(labels)
	}
}

// Scrubber implements Client.
func (c *client) Scrubber() steps.Scrubber { return c.server.opts().Scrubber }

// Log implements Client.
func (c *client) Log() *slog.Logger { return c.server.opts().Log }
