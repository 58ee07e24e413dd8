package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/oauthtest"
)

// guardedServers are two MCP servers that answer only requests with a token for them, and say whose it is: orders is called as its callers, by
// exchange, stock as the gateway, by client credentials.
type guardedServers struct {
	*oauthtest.Server
	*gateway

	mu      sync.Mutex
	seen    map[string]int // how many requests came with a token, by its text
	refused map[string]bool
}

// A secret must not stand in a configuration, and parallel tests cannot set variables.
func init() { _ = os.Setenv("TEST_GATEWAY_SECRET", oauthtest.Secret) }

const ordersAudience = "https://orders.example.com"

// startGuarded starts the servers, and a gateway to them whose callers come with tokens of the authorization server.
func startGuarded(t *testing.T) *guardedServers {
	w := &guardedServers{Server: oauthtest.Start(t), seen: map[string]int{}, refused: map[string]bool{}}
	mux := http.NewServeMux()
	for path, audience := range map[string]string{"/orders": ordersAudience, "/stock": oauthtest.Audience} {
		mux.Handle(path, w.watch(w.Guard(audience, func(subject string) http.Handler {
			server := sdk.NewServer(&sdk.Implementation{Name: "guarded", Version: "1"}, nil)
			tool := &sdk.Tool{Name: "whoami", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}
			sdk.AddTool(server, tool, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, map[string]string, error) {
				return nil, map[string]string{"subject": subject}, nil
			})
			return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
		})))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := fmt.Sprintf("tokenUrl: %q, clientId: gateway, secret: \"${TEST_GATEWAY_SECRET}\"", w.TokenURL)
	w.gateway = serveGateway(t, fmt.Sprintf(`
mcpServers:
  orders: {url: "%[1]s/orders", auth: {caller: exchange, %[2]s, audience: %[3]q}}
  stock: {url: "%[1]s/stock", auth: {clientCredentials: {%[2]s}}}
journal: {store: memory}
access: {jwt: {issuer: %[4]q, audience: %[5]q, scopes: {%[6]s: read_write}}}
`, server.URL, client, ordersAudience, w.Issuer, oauthtest.UserAudience, oauthtest.Scope))
	return w
}

// watch counts the tokens of requests, and refuses those that a test has revoked.
func (w *guardedServers) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		w.mu.Lock()
		w.seen[token]++
		refused := w.refused[token]
		w.mu.Unlock()
		if refused {
			http.Error(rw, "revoked", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// revoke makes the servers refuse all tokens that they have seen.
func (w *guardedServers) revoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for token := range w.seen {
		w.refused[token] = true
	}
}

// login gives a caller a new token.
func (w *guardedServers) login(t *testing.T, user string) (token string) {
	token = w.UserToken(t, user)
	w.tokens.Store(user, token)
	return token
}

// ask returns what a server says of whose token a call of a user carries.
func (w *guardedServers) ask(t *testing.T, user, server string) string {
	t.Helper()
	return w.call(t, user, "", "chain", chainOf(server+".whoami", `{}`))
}

// fetched returns how many tokens were asked for by the gateway.
func (w *guardedServers) fetched() (n int) {
	for _, request := range w.Requests() {
		if request.Get("grant_type") != "client_credentials" || request.Get("client_id") == "gateway" || request.Get("subject_token") != "" {
			n++
		}
	}
	return n
}

// TestTokensReachServers: an MCP server gets a token of its own for each caller, or that of the gateway, and no caller's own. A token is
// used until shortly before its end, or until the server refuses it.
func TestTokensReachServers(t *testing.T) {
	t.Parallel()
	w := startGuarded(t)
	var own []string
	for _, user := range []string{"ann", "bob"} {
		own = append(own, w.login(t, user))
		expect(t, user, w.ask(t, user, "orders"), `"subject":"`+user+`"`)
		expect(t, user+" at stock", w.ask(t, user, "stock"), `"subject":"gateway"`)
	}
	before := w.fetched()
	expect(t, "again", w.ask(t, "ann", "orders"), `"subject":"ann"`)
	if n := w.fetched() - before; n != 0 {
		t.Errorf("%d tokens were fetched for a call with a known one", n)
	}
	w.revoke()
	expect(t, "after a refusal", w.ask(t, "ann", "orders"), `"subject":"ann"`)
	expect(t, "after a refusal", w.ask(t, "bob", "stock"), `"subject":"gateway"`)

	w.SetLife(5 * time.Second) // shorter than what a call may take: each call gets a new one
	own = append(own, w.UserToken(t, "ann"))
	w.revoke()
	for range 2 {
		before := w.fetched()
		expect(t, "a token that is about to end", w.ask(t, "bob", "orders"), `"subject":"bob"`)
		if n := w.fetched() - before; n == 0 {
			t.Error("a token that is about to end was used for another call")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, token := range own {
		if w.seen["Bearer "+token] > 0 {
			t.Error("a caller's own token reached a server")
		}
	}
	if len(w.seen) < 6 || w.seen[""] > 0 {
		t.Errorf("%d tokens reached the servers, and %d requests without", len(w.seen), w.seen[""])
	}
	for token := range w.seen {
		if strings.Contains(w.log.String(), strings.TrimPrefix(token, "Bearer ")) {
			t.Error("a token is in the log")
		}
	}
}

// TestTokensThatDoNotCome: a call whose token is for another audience, or does not come, is not sent, and says why to its caller. One that
// comes late holds up nobody else.
func TestTokensThatDoNotCome(t *testing.T) {
	t.Parallel()
	w := startGuarded(t)
	ann, asked, release := w.login(t, "ann"), make(chan struct{}, 1), make(chan struct{})
	w.login(t, "bob")
	wrong := w.UserToken(t, "bob")
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("subject_token") == ann {
			asked <- struct{}{}
			<-release
		}
		return false
	})
	late := make(chan string, 1)
	go func() { late <- w.ask(t, "ann", "orders") }()
	<-asked
	expect(t, "bob while ann waits", w.ask(t, "bob", "orders"), `"subject":"bob"`)
	close(release)
	expect(t, "ann", <-late, `"subject":"ann"`)

	for name, test := range map[string]struct{ answer, want string }{
		"another audience": {fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":60}`, wrong), "another audience"},
		"a refusal":        {`{"error":"invalid_target"}`, "invalid_target"},
	} {
		token := w.login(t, "bob")
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.PostForm.Get("subject_token") != token {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			if gjson.Get(test.answer, "error").Exists() {
				rw.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprint(rw, test.answer)
			return true
		})
		expect(t, name, w.ask(t, "bob", "orders"), test.want, wrong, token, `"subject"`, "127.0.0.1")
		w.mu.Lock()
		if w.seen["Bearer "+wrong]+w.seen["Bearer "+token]+w.seen[""] > 0 {
			t.Errorf("%s: a request was sent to the server", name)
		}
		w.mu.Unlock()
	}
}
