package login

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

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

// loginFixture is one server with its authorization server, and the options to log in there.
type loginFixture struct {
	auth  *authServer
	tools *toolServer
	o     *Options
}

func newSetting(t *testing.T) *loginFixture {
	a := newAuthServer(t)
	s := &loginFixture{auth: a, tools: newToolServer(t, a)}
	s.o = &Options{Source: "hub", ServerURL: s.tools.URL + "/mcp", Store: newFile(filepath.Join(t.TempDir(), "logins", "logins.json")),
		HTTPClient: &http.Client{}}
	return s
}

func (s *loginFixture) login(t *testing.T) {
	t.Helper()
	b := &browser{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Login(ctx, s.o, b); err != nil {
		t.Fatal(err, b.notices)
	}
}

// change edits the stored login.
func (s *loginFixture) change(t *testing.T, edit func(*record)) *record {
	t.Helper()
	server, err := newServer(s.o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := server.load(t.Context())
	if err != nil || r == nil {
		t.Fatal("no login is stored: ", err)
	}
	edit(r)
	if err := server.save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// ended makes a login look as it does an hour after its token was given.
func ended(r *record) {
	r.Obtained, r.Expires = time.Now().Add(-time.Hour), time.Now().Add(-time.Second)
}

// old makes a login look as it does some minutes after its token was given.
func old(r *record) { r.Obtained = time.Now().Add(-10 * time.Minute) }

// connect opens an MCP session with a fresh handler.
func (s *loginFixture) connect(t *testing.T) (*sdk.ClientSession, *handler, error) {
	t.Helper()
	h, err := Handler(s.o)
	if err != nil {
		t.Fatal(err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.o.ServerURL, OAuthHandler: h, MaxRetries: -1}, nil)
	if err == nil {
		t.Cleanup(func() { session.Close() })
	}
	return session, h.(*handler), err
}
