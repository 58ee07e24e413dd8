package mcp_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

// behindProxy records the upstreams of each test's options.
type behindProxy struct {
	mcp.Passthrough
	list []proxy.Upstream
}

// pass adds upstreams that flat surfaces pass through.
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

// proxied drops the record of the options' upstreams, once the options have a proxy for all of them.
func proxied(o *mcp.Options) {
	switch p := o.Passthrough.(type) {
	case *behindProxy:
		o.Passthrough = p.Passthrough
	case nil:
		o.Passthrough = proxy.New(nil)
	}
}
