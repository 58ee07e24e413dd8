package app

import (
	"context"
	"encoding/json"

	"github.com/onecall-mcp/onecall/mcp"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// upstreams are the MCP servers of the configuration, in its order, as the server of a flat surface passes them through.
func (a *App) upstreams() []mcp.Upstream {
	var list []mcp.Upstream
	for i := range a.config.MCPServers {
		name := a.config.MCPServers[i].Source()
		if server, ok := a.servers[name]; ok {
			list = append(list, upstream{server, name})
		}
	}
	return list
}

// upstream is a server as package mcp knows it.
type upstream struct {
	*mcpsource.Source
	name string
}

// Name implements mcp.Upstream.
func (u upstream) Name() string { return u.name }

// Open implements mcp.Upstream.
func (u upstream) Open(ctx context.Context, peer *mcp.Peer) (mcp.Link, error) {
	link, err := u.Link(ctx, (*mcpsource.Peer)(peer))
	if err != nil {
		return nil, err // not link, which would not be nil
	}
	return link, nil
}

// Within implements mcp.Upstream.
func (u upstream) Within(ctx context.Context, params json.RawMessage, link func(context.Context) (mcp.Link, error)) context.Context {
	return u.Source.Within(ctx, params, func(ctx context.Context) (*mcpsource.Link, error) {
		opened, err := link(ctx)
		if err != nil {
			return nil, err
		}
		return opened.(*mcpsource.Link), nil //nolint:forcetypeassert // it is what Open gives
	})
}

// passesThrough tells whether clients see the servers' own tools, and can so be asked by them, or may do so.
func (a *App) passesThrough() bool {
	surface := surfaceOf(&a.config.Config)
	return a.process.anySurface || surface == mcp.SurfaceFlat || surface == mcp.SurfaceHybrid
}
