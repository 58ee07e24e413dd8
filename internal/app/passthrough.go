package app

import (
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

// passthrough returns what flat surfaces pass through: the opened MCP servers, in the order of the configuration.
func (a *App) passthrough() mcp.Passthrough {
	var list []proxy.Upstream
	for i := range a.config.MCPServers {
		if server, ok := a.servers[a.config.MCPServers[i].Source()]; ok {
			list = append(list, server)
		}
	}
	return proxy.New(list)
}

// passesThrough reports whether a client's surface may show the servers' own tools; servers can then send requests to clients.
func (a *App) passesThrough() bool {
	surface := surfaceOf(&a.config.Config)
	return a.process.overHTTP || surface == mcp.SurfaceFlat || surface == mcp.SurfaceHybrid
}
