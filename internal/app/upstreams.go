package app

import (
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

// passthrough passes through the MCP servers of the configuration, in its order.
func (a *App) passthrough() mcp.Passthrough {
	var list []proxy.Upstream
	for i := range a.config.MCPServers {
		if server, ok := a.servers[a.config.MCPServers[i].Source()]; ok {
			list = append(list, server)
		}
	}
	return proxy.New(list)
}

// passesThrough reports whether clients see the servers' own tools, and can so be asked by them, or may do so.
func (a *App) passesThrough() bool {
	surface := surfaceOf(&a.config.Config)
	return a.process.anySurface || surface == mcp.SurfaceFlat || surface == mcp.SurfaceHybrid
}
