package proxy

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// sessionlessClient is a client without a session.
type sessionlessClient struct {
	proxy   *Proxy
	catalog *steps.Catalog
}

func (*sessionlessClient) Capabilities() *sdk.ClientCapabilities { return nil }
func (*sessionlessClient) Session() *sdk.ServerSession           { return nil }
func (a *sessionlessClient) Passthrough() mcp.Passthrough        { return a.proxy }
func (a *sessionlessClient) View() *steps.View                   { return steps.NewView(a.catalog, a.Rights().Allows) }
func (*sessionlessClient) Rights() steps.Rights                  { return steps.Rights{Tier: steps.TierAdmin} }
func (*sessionlessClient) Tools() *mcp.Tools                     { return &mcp.Tools{} }
func (*sessionlessClient) Refresh()                              {}
func (a *sessionlessClient) AwaitSources(ctx context.Context)    { steps.Await(ctx, a.catalog, nil) }
func (a *sessionlessClient) Changed() <-chan struct{}            { return a.catalog.Changed() }
func (*sessionlessClient) ClientError(error) *jsonrpc.Error      { return &jsonrpc.Error{Message: "failed"} }
func (*sessionlessClient) Scrubber() steps.Scrubber              { return secret.New(nil) }
func (*sessionlessClient) Log() *slog.Logger                     { return slog.New(slog.DiscardHandler) }
func (*sessionlessClient) Shown(context.Context, string)         {}
func (a *sessionlessClient) open(upstreams ...Upstream) *sessions {
	a.proxy = New(upstreams)
	return a.proxy.Open(a).(*sessions)
}

// upstream returns an MCP server with three resources, which lists two on a page.
func upstream(t *testing.T, name string, catalog *steps.Catalog) *mcpsource.Source {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{PageSize: 2})
	server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	for _, uri := range []string{"1", "2", "3"} {
		server.AddResource(&sdk.Resource{Name: uri, URI: name + "://" + uri}, nil)
	}
	front := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		front.CloseClientConnections()
		go front.Close()
	})
	source, err := mcpsource.New(&mcpsource.Options{Name: name, URL: front.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := catalog.Add(name, source); err != nil {
		t.Fatal(err)
	}
	return source
}

// TestListsAreNotStored: the list of a single upstream is passed on page by page, and is not stored. Of several upstreams the proxy stores
// which one has each item.
func TestListsAreNotStored(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"a", "a b"} {
		catalog := newCatalog(t)
		var upstreams []Upstream
		for name := range strings.FieldsSeq(names) {
			upstreams = append(upstreams, upstream(t, name, catalog))
		}
		s := (&sessionlessClient{catalog: catalog}).open(upstreams...)
		defer s.Close()
		req := &sdk.ServerRequest[*sdk.ListResourcesParams]{Session: &sdk.ServerSession{}, Params: &sdk.ListResourcesParams{}}
		p := &clientRequest{sessions: s, method: "resources/list"}
		if _, err := p.list(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if retained := len(s.routes) + len(s.storedLists); (retained > 0) != (len(upstreams) > 1) {
			t.Errorf("upstreams %s: stored routes %v and lists %v, want any: %t", names, s.routes, s.storedLists, len(upstreams) > 1)
		}
	}
}
