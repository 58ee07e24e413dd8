package login

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// toolServer is an MCP server that asks for a token of an authServer.
type toolServer struct {
	*httptest.Server
	mux      *http.ServeMux
	metadata *oauthex.ProtectedResourceMetadata
	around   func(http.Handler) http.Handler // set before it is used
}

func greet(t *testing.T, session *sdk.ClientSession) error {
	t.Helper()
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "greet"})
	if err == nil && (len(got.Content) != 1 || got.Content[0].(*sdk.TextContent).Text != "hello") {
		t.Errorf("the tool answers %v, want hello", got)
	}
	return err
}

func newToolServer(t *testing.T, a *authServer) *toolServer {
	server := sdk.NewServer(&sdk.Implementation{Name: "protected", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "greet"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil, nil
	})
	s := &toolServer{mux: http.NewServeMux(), metadata: &oauthex.ProtectedResourceMetadata{ScopesSupported: []string{"tools"}}}
	s.Server = httptest.NewServer(s.mux)
	t.Cleanup(s.Close)
	s.metadata.Resource, s.metadata.AuthorizationServers = s.URL+"/mcp", []string{a.URL}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	guarded := auth.RequireBearerToken(a.verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: s.URL + "/meta"})(handler)
	s.mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if s.around != nil {
			s.around(guarded).ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
	s.mux.Handle("/meta", auth.ProtectedResourceMetadataHandler(s.metadata))
	return s
}

// describe serves the metadata at a path.
func (s *toolServer) describe(path string) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, s.metadata) })
}

func challenge(text string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", text)
			w.WriteHeader(http.StatusUnauthorized)
		})
	}
}
