package mcp_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

// behindProxy keeps the upstreams of the options of each test.
type behindProxy struct {
	mcp.Passthrough
	list []proxy.Upstream
}

// pass adds upstreams that a flat surface passes through.
func pass(t testing.TB, o *mcp.Options, upstreams ...proxy.Upstream) {
	t.Helper()
	p, ok := o.Passthrough.(*behindProxy)
	if !ok {
		p = &behindProxy{}
		o.Passthrough = p
	}
	p.list = append(p.list, upstreams...)
	p.Passthrough = proxy.New(p.list)
}

// proxied leaves the proxy alone in the options, once all upstreams are known.
func proxied(o *mcp.Options) {
	switch p := o.Passthrough.(type) {
	case *behindProxy:
		o.Passthrough = p.Passthrough
	case nil:
		o.Passthrough = proxy.New(nil)
	}
}
