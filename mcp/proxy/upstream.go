package proxy

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Upstream is an MCP server of which a flat surface passes through all that it offers. *mcpsource.Source implements it. Upstreams
// that are equal (==) are one: sessions with it outlive a reload.
type Upstream interface {
	// Name is that of the source whose functions are the server's tools.
	Name() string
	// Capabilities is what the running server offers; nil while that is not known.
	Capabilities() *sdk.ServerCapabilities
	// Link opens a session with the server for one client. What the server asks and tells in it goes to the peer. The
	// caller closes it. Errors: unavailable, limit_exceeded.
	Link(ctx context.Context, peer *mcpsource.Peer) (*mcpsource.Link, error)
	// Within gives a context with which calls of the upstream's functions are made in the session that link gives, which is
	// asked at each call. params are those of the client's own tools/call: what they hold beside name and arguments (_meta,
	// inputResponses, requestState) is handed on; nil: there is none.
	Within(ctx context.Context, params json.RawMessage, link func(ctx context.Context) (*mcpsource.Link, error)) context.Context
}
