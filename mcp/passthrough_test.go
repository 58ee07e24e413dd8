package mcp_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/proxy"
)

// recordingProxy records the upstreams of each test's options.
type recordingProxy struct {
	mcp.Passthrough
	list []proxy.Upstream
}

// addPassthrough adds upstreams that flat surfaces pass through.
func addPassthrough(t testing.TB, o *mcp.Options, upstreams ...proxy.Upstream) {
	t.Helper()
	p, ok := o.Passthrough.(*recordingProxy)
	if !ok {
		p = &recordingProxy{}
		o.Passthrough = p
	}
	p.list = append(p.list, upstreams...)
	p.Passthrough = proxy.New(p.list)
}

// unwrapProxy drops the record of the options' upstreams, once the options have a proxy for all of them.
func unwrapProxy(o *mcp.Options) {
	switch p := o.Passthrough.(type) {
	case *recordingProxy:
		o.Passthrough = p.Passthrough
	case nil:
		o.Passthrough = proxy.New(nil)
	}
}
