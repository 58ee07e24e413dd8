package app

import (
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

// passthrough returns the passthrough of the configured MCP servers, in their order.
func (a *App) passthrough() mcp.Passthrough {
	var list []proxy.Upstream
	for i := range a.config.MCPServers {
		if server, ok := a.servers[a.config.MCPServers[i].Source()]; ok {
			list = append(list, server)
		}
	}
	return proxy.New(list)
}

// passesThrough reports whether clients may see the servers' own tools, so that servers can send requests to them.
func (a *App) passesThrough() bool {
	surface := surfaceOf(&a.config.Config)
	return a.process.overHTTP || surface == mcp.SurfaceFlat || surface == mcp.SurfaceHybrid
}
