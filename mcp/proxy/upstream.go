package proxy

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Upstream is an MCP server that flat surfaces pass through. *mcpsource.Source implements it. Upstreams that compare equal (==)
// are the same server: sessions with it survive a reload.
type Upstream interface {
	// Name returns the name of the source with the server's tools.
	Name() string
	// Capabilities returns the server's capabilities; nil: not known yet.
	Capabilities() *sdk.ServerCapabilities
	// OpenSession opens a session with the server for one client, which receives the server's requests and notifications. The
	// caller closes it. Errors: unavailable, limit_exceeded.
	OpenSession(ctx context.Context, client *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error)
	// Within returns a context in which calls of the upstream's functions use the session that open returns; open is called for
	// each call. params are those of the client's tools/call; members other than name and arguments (_meta, inputResponses,
	// requestState) are passed on. nil: none.
	Within(ctx context.Context, params json.RawMessage, open func(ctx context.Context) (*mcpsource.UpstreamSession, error)) context.Context
}
