package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// Upstream is an MCP server of which a flat surface passes through all that it offers: the tools of each
// session, resources, prompts, completion,
// subscriptions, log messages, and what the server asks of its client. Upstreams that are equal (==) are one: sessions with it
// outlive a reload.
type Upstream interface {
	// Name is that of the source whose functions are the server's tools.
	Name() string
	// Capabilities is what the running server offers; nil while that is not known.
	Capabilities() *sdk.ServerCapabilities
	// Open opens a session with the server for one client. What the server asks and tells in it goes to the peer. The
	// caller closes the link. Errors: unavailable, limit_exceeded.
	Open(ctx context.Context, peer *Peer) (Link, error)
	// Within gives a context with which calls of the upstream's functions are made in the session that link gives, which is
	// asked at each call. params are those of the client's own tools/call: what they hold beside name and arguments (_meta,
	// inputResponses, requestState) is handed on; nil: there is none.
	Within(ctx context.Context, params json.RawMessage, link func(ctx context.Context) (Link, error)) context.Context
}

// Peer is the client that a link is opened for.
type Peer struct {
	Capabilities *sdk.ClientCapabilities // they are declared to the upstream; nil: none
	Protocol     string                  // the MCP version of the client's session
	Info         *sdk.Implementation     // nil: unknown
	Shared       bool                    // several clients stand behind it: what names no call goes to none of them

	// Ask has the client answer a request of the upstream (sampling/createMessage, elicitation/create, roots/list). ctx is
	// that of a call in flight in this link where there is one. nil: the client cannot be asked.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify tells the client what the upstream tells (notifications/…); ctx as for Ask.
	Notify func(ctx context.Context, method string, params json.RawMessage)
}

// Link is a session with an upstream that belongs to one client. It may be used by many goroutines.
type Link interface {
	// Do makes one request of the upstream beside tools/call, and gives its result as the upstream wrote it. An error that
	// the upstream answers is a *jsonrpc.Error.
	Do(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Functions are the tools that the upstream lists in this session, as functions of its source. Errors as for Do.
	Functions(ctx context.Context) ([]steps.Function, error)
	// Listen has the session come back by itself when it is lost, for the sake of what the upstream tells in it.
	Listen(on bool)
	// Close ends the session. It may be called more than once.
	Close() error
}
