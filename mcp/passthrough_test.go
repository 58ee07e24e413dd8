package mcp

import (
	"context"
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Upstream is what package proxy takes, which tests of this package cannot import.
type Upstream interface {
	Name() string
	Capabilities() *sdk.ServerCapabilities
	OpenSession(ctx context.Context, client *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error)
	Within(ctx context.Context, params json.RawMessage, link func(ctx context.Context) (*mcpsource.UpstreamSession, error)) context.Context
}

// PassUpstreams makes a proxy. The external test package sets it.
var PassUpstreams func(upstreams []Upstream) Passthrough

// behindProxy keeps the upstreams of the options of each test.
type behindProxy struct {
	Passthrough
	list []Upstream
}

// pass adds upstreams that a flat surface passes through.
func pass(t testing.TB, o *Options, upstreams ...Upstream) {
	t.Helper()
	p, ok := o.Passthrough.(*behindProxy)
	if !ok {
		p = &behindProxy{}
		o.Passthrough = p
	}
	p.list = append(p.list, upstreams...)
	p.Passthrough = PassUpstreams(p.list)
}

// proxied leaves the proxy alone in the options, once all upstreams are known.
func proxied(o *Options) {
	switch p := o.Passthrough.(type) {
	case *behindProxy:
		o.Passthrough = p.Passthrough
	case nil:
		o.Passthrough = PassUpstreams(nil)
	}
}
