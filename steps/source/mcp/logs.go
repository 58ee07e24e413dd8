package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/protocol"
)

// MCP 2026-07-28 deprecates log messages but keeps them for at least a year. Servers send them and steps.Callbacks takes them, so
// the linter's warnings are silenced here.

// metaLogLevel is the member of _meta for the wanted log level (MCP 2026-07-28).
const metaLogLevel = sdk.MetaKeyLogLevel //nolint:staticcheck // see above

// logLevel is the minimum severity that servers are asked for.
const logLevel = "info"

// asksLogsByCall reports whether the MCP version of the connection asks for log messages in each call.
func (c *connection) asksLogsByCall() bool { return c.protocol > protocol.Stateful }

// askForLogs subscribes to the server's log messages, in MCP versions where one request does that. It does not wait.
func (c *connection) askForLogs() {
	capabilities := c.client.InitializeResult().Capabilities
	if c.asksLogsByCall() || capabilities == nil || capabilities.Logging == nil { //nolint:staticcheck // see above
		return
	}
	c.source.background.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.source.options.StartTimeout)
		defer cancel()
		_ = c.client.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: logLevel}) //nolint:staticcheck // see above; a server may refuse
	})
}

// askForLogsOf requests the log messages of one call, in versions where each call does so.
func (c *connection) askForLogsOf(params *sdk.CallToolParams) {
	if !c.asksLogsByCall() {
		return
	}
	if params.Meta == nil {
		params.Meta = sdk.Meta{}
	}
	params.Meta[metaLogLevel] = logLevel
}
