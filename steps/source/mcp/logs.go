package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// MCP 2026-07-28 deprecates log messages and leaves them in use for a year at least; servers send them, and steps.Callbacks
// takes them. The linter's word on that is not wanted here.

// metaLogLevel is where a request says which log messages it wants (MCP 2026-07-28).
const metaLogLevel = sdk.MetaKeyLogLevel //nolint:staticcheck // see above

// logLevel is the least severity that servers are asked for.
const logLevel = "info"

func (n *session) asksLogsByCall() bool { return n.protocol > protocol.Stateful }

// askForLogs has the server send its log messages, where it must be asked once. It is not waited for.
func (n *session) askForLogs() {
	capabilities := n.client.InitializeResult().Capabilities
	if n.asksLogsByCall() || capabilities == nil || capabilities.Logging == nil { //nolint:staticcheck // see above
		return
	}
	n.source.running.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, n.source.options.StartTimeout)
		defer cancel()
		_ = n.client.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: logLevel}) //nolint:staticcheck // see above; a server may refuse
	})
}

// askForLogsOf has the server send the log messages of one call, where each call asks for its own.
func (n *session) askForLogsOf(params *sdk.CallToolParams) {
	if !n.asksLogsByCall() {
		return
	}
	if params.Meta == nil {
		params.Meta = sdk.Meta{}
	}
	params.Meta[metaLogLevel] = logLevel
}
