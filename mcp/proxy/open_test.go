package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// memoryServer is an HTTP client with an MCP server in the same process, so that tests can run in a synctest bubble. on is called before
// the server receives a message, and may fail the request.
type memoryServer struct {
	handler http.Handler
	on      func(method, params string) error
}

// RoundTrip implements http.RoundTripper.
func (m *memoryServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	if err := m.on(gjson.GetBytes(body, "method").Str, gjson.GetBytes(body, "params").Raw); err != nil {
		return nil, err
	}
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), strings.NewReader(string(body)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	m.handler.ServeHTTP(answer, request)
	return answer.Result(), nil
}

// newCatalog returns an empty catalog, which the end of the test closes.
func newCatalog(t *testing.T) *steps.Catalog {
	t.Helper()
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = catalog.Close() })
	return catalog
}

// memoryUpstream returns an upstream a in the same process that is ready.
func memoryUpstream(t *testing.T, catalog *steps.Catalog, on func(method, params string) error) *mcpsource.Source {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "a", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	server.AddResource(&sdk.Resource{Name: "r", URI: "a://r"}, nil)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	source, err := mcpsource.New(&mcpsource.Options{Name: "a", URL: "http://a.test", Protocol: protocol.Stateful,
		HTTPClient: &http.Client{Transport: &memoryServer{handler, on}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := catalog.Add("a", source); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if source.Capabilities() == nil {
		t.Fatalf("the upstream is not ready: %+v", source.Status())
	}
	return source
}

// TestLevelSetDuringOpening: a log level that the client sets while a session is being opened reaches the upstream.
func TestLevelSetDuringOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		catalog := newCatalog(t)
		goOn := make(chan struct{})
		var last atomic.Value
		u := memoryUpstream(t, catalog, func(method, params string) error {
			if method == "logging/setLevel" {
				<-goOn
				last.Store(gjson.Get(params, "level").Str)
			}
			return nil
		})
		s := (&sessionlessClient{catalog: catalog}).open(u)
		defer s.Close()
		s.server = &sdk.ServerSession{}
		p := &clientRequest{sessions: s, method: "logging/setLevel"}
		setLevel := func(level sdk.LoggingLevel) { //nolint:staticcheck // clients still set it
			req := &sdk.ServerRequest[*sdk.SetLoggingLevelParams]{Params: &sdk.SetLoggingLevelParams{Level: level}} //nolint:staticcheck // see above
			if _, err := p.setLevel(t.Context(), req, func(context.Context, string, sdk.Request) (sdk.Result, error) {
				return nil, nil
			}); err != nil {
				t.Error(err)
			}
		}
		setLevel("error")
		opened := make(chan error, 1)
		go func() {
			_, err := s.session(t.Context(), u)
			opened <- err
		}()
		synctest.Wait()
		setLevel("debug")
		close(goOn)
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		if got := last.Load(); got != "debug" {
			t.Errorf("the upstream's level is %v, want debug", got)
		}
	})
}
