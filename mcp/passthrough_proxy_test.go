package mcp_test

import (
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

func init() {
	mcp.PassUpstreams = func(upstreams []mcp.Upstream) mcp.Passthrough {
		var list []proxy.Upstream
		for _, u := range upstreams {
			list = append(list, u)
		}
		return proxy.New(list)
	}
}
