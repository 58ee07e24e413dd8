package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// accounts is a real authorization server, whose users need no password, with services that are called with its tokens: an MCP server, an
// HTTP endpoint and an OpenAPI service, which say for whom they were called.
type accounts struct {
	*storage.Storage
	provider *op.Provider
	url      string // of the authorization server
	services string // the URL of the services

	mu       sync.Mutex
	secrets  []string // all tokens and codes that were issued
	grants   []string // the grant types of all requests for tokens
	refused  map[string]bool
	callers  []string // for whom the services were called
	noGrants bool     // requests for tokens are refused with invalid_grant
}

// accountUsers are all names there may be.
type accountUsers struct{}

func (accountUsers) GetUserByID(id string) *storage.User { return &storage.User{ID: id, Username: id} }
func (accountUsers) GetUserByUsername(name string) *storage.User {
	return accountUsers{}.GetUserByID(name)
}
func (accountUsers) ExampleClientID() string { return "service" }

// jwtClient is a client whose access tokens are JWTs.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

// GetClientByClientID implements op.Storage.
func (a *accounts) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := a.Storage.GetClientByClientID(ctx, id)
	return jwtClient{client}, err
}

// startAccounts starts the servers. They know the client onecall, with any port of a loopback redirect.
func startAccounts(t *testing.T) *accounts {
	t.Helper()
	a := &accounts{refused: map[string]bool{}}
	a.Storage = storage.NewStorageWithClients(accountUsers{}, map[string]*storage.Client{"onecall": storage.NativeClient("onecall",
		"http://127.0.0.1/console/callback/desk", "http://127.0.0.1/console/callback/stock", "http://127.0.0.1/console/callback/http.note",
		"http://127.0.0.1/callback")})
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			a.serveToken(w, r, handler)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	var err error
	a.provider, err = op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test")), CodeMethodS256: true, GrantTypeRefreshToken: true},
		a, op.StaticIssuer(a.url), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	handler = op.RegisterLegacyServer(op.NewLegacyServer(a.provider, *op.DefaultEndpoints), op.AuthorizeCallbackHandler(a.provider))
	a.startServices(t)
	return a
}

// serveToken notes the grants, and the tokens that are issued.
func (a *accounts) serveToken(w http.ResponseWriter, r *http.Request, next http.Handler) {
	_ = r.ParseForm()
	a.mu.Lock()
	a.grants = append(a.grants, r.PostForm.Get("grant_type"))
	a.secrets = append(a.secrets, r.PostForm.Get("code"), r.PostForm.Get("code_verifier"))
	none := a.noGrants
	a.mu.Unlock()
	if none {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	a.mu.Lock()
	a.secrets = append(a.secrets, gjson.GetBytes(body, "access_token").Str, gjson.GetBytes(body, "refresh_token").Str)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// count returns how often tokens were asked for with a grant type.
func (a *accounts) count(grant string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.grants {
		if one == grant {
			n++
		}
	}
	return n
}

// user returns whose token a request has; "": it has none, or it is refused.
func (a *accounts) user(r *http.Request) string {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	defer a.mu.Unlock()
	if parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256}); err == nil && !a.refused[token] {
		return gjson.GetBytes(parsed.UnsafePayloadWithoutVerification(), "sub").Str
	}
	return ""
}

// startServices starts what is called with tokens.
func (a *accounts) startServices(t *testing.T) {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.callers = append(a.callers, r.URL.Path)
		n := len(a.callers)
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		user := a.user(r)
		if user == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, `{"n":%d,"user":%q,"said":%q}`, n, user, r.Header.Get("Authorization"))
	}
	mux.HandleFunc("/stock/", answer)
	mux.HandleFunc("/note", answer)
	tools := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		user := a.user(r)
		server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
		for _, name := range []string{"whoami", "only_" + user} {
			sdk.AddTool(server, &sdk.Tool{Name: name, Description: "Says for whom it works.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
				func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, map[string]string, error) {
					return nil, map[string]string{"user": user}, nil
				})
		}
		return server
	}, nil)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if a.user(r) == "" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+a.services+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, r)
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": a.services + "/mcp", "authorization_servers": []string{a.url}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	a.services = server.URL
}

// person is someone with a browser that is logged in to the console with a token.
type person struct {
	*http.Client
	t    *testing.T
	a    *accounts
	base string   // of the gateway
	seen []string // the pages
}

// person returns someone with the token of a caller.
func (g *gateway) person(t *testing.T, a *accounts, caller string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t, a,
		strings.TrimSuffix(g.url, "/mcp"), nil}
	if r, page := p.post("/console/login", url.Values{"token": {"token-of-" + caller}}); r.StatusCode != http.StatusSeeOther {
		t.Fatalf("the login of %s to the console: status %d: %s", caller, r.StatusCode, page)
	}
	return p
}

func (p *person) read(r *http.Response, err error) (*http.Response, string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.seen = append(p.seen, string(text))
	return r, string(text)
}

func (p *person) get(path string) (*http.Response, string) {
	p.t.Helper()
	return p.read(p.Get(p.base + path))
}

func (p *person) post(path string, form url.Values) (*http.Response, string) {
	p.t.Helper()
	return p.read(p.PostForm(p.base+path, form))
}

// act sends a form of the page Sources, to a source.
func (p *person) act(path string) (*http.Response, string) {
	p.t.Helper()
	_, page := p.get("/console/playground") // has the key of this person's forms
	_, rest, _ := strings.Cut(page, `name="form" value="`)
	key, _, _ := strings.Cut(rest, `"`)
	return p.post("/console/sources/"+path, url.Values{"form": {html.UnescapeString(key)}})
}

// begin begins a login to a source, and returns the address of the page at the authorization server.
func (p *person) begin(source string) string {
	p.t.Helper()
	r, page := p.act(source + "/login")
	_, next, _ := strings.Cut(r.Header.Get("Refresh"), "url=")
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(next, p.a.url) || !strings.Contains(page, "Go on at ") {
		p.t.Fatalf("the login to %s: status %d, next %q: %s", source, r.StatusCode, next, page)
	}
	return next
}

var requestID = regexp.MustCompile(`authRequestID=([^&]+)`)

// allow logs a user in at the authorization server, and returns the address, below the gateway, to which the browser is sent back.
func (p *person) allow(address, user string) string {
	p.t.Helper()
	r, page := p.read(p.Get(address))
	id := requestID.FindStringSubmatch(r.Header.Get("Location"))
	if id == nil {
		p.t.Fatalf("the authorization server does not ask who it is: status %d: %s", r.StatusCode, page)
	}
	if err := p.a.CheckUsernamePassword(user, "", id[1]); err != nil {
		p.t.Fatal(err)
	}
	r, page = p.read(p.Get(p.a.url + "/authorize/callback?id=" + id[1]))
	back := r.Header.Get("Location")
	if !strings.HasPrefix(back, p.base) {
		p.t.Fatalf("the authorization server sends the browser to %q: %s", back, page)
	}
	return strings.TrimPrefix(back, p.base)
}

// login logs in to a source as a user of the authorization server.
func (p *person) login(source, user string) {
	p.t.Helper()
	if r, page := p.get(p.allow(p.begin(source), user)); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/console/sources" {
		p.t.Fatalf("the answer to the login to %s: status %d: %s", source, r.StatusCode, page)
	}
}

// wantNoSecrets fails the test if a text has one of the tokens and codes that were issued.
func (a *accounts) wantNoSecrets(t *testing.T, what, text string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.secrets) == 0 {
		t.Fatal("nothing was issued")
	}
	if i := slices.IndexFunc(a.secrets, func(secret string) bool { return secret != "" && strings.Contains(text, secret) }); i >= 0 {
		t.Errorf("%s: it has %q", what, a.secrets[i])
	}
}
