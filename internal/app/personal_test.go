package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// upstreams are three services that are called as their callers: an OpenAPI service, an HTTP endpoint, and an MCP server that lists another
// tool to each tenant.
type upstreams struct {
	url   string
	calls atomic.Int64

	mu   sync.Mutex
	seen []string // tenant and authorization of each call
}

const personalDocument = `{"openapi": "3.1.0", "info": {"title": "Stock", "version": "1"}, "paths": {"/stock/{id}": {
	"get": {"operationId": "getStock", "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
		{"name": "X-Tenant", "in": "header", "schema": {"type": "string"}}], "responses": {"200": {"description": "ok"}}},
	"delete": {"operationId": "deleteStock", "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
		"responses": {"200": {"description": "ok"}}}}}}`

// startUpstreams starts the services.
func startUpstreams(t *testing.T) *upstreams {
	u := &upstreams{}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request) {
		n := u.record(r)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/broken") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprintf(w, `{"n":%d,"tenant":%q,"token":%q,"pad":%q}`, n, r.Header.Get("X-Tenant"), r.Header.Get("Authorization"),
			strings.Repeat("pad ", 3*len(r.URL.Query().Get("big"))))
	}
	mux.HandleFunc("/stock/", answer)
	mux.HandleFunc("/note", answer)
	tools := func(r *http.Request) *sdk.Server {
		tenant := r.Header.Get("X-Tenant")
		server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
		for _, name := range []string{"whoami", "only_" + tenant} {
			sdk.AddTool(server, &sdk.Tool{Name: name, Description: "Says for whom it works.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
				func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, struct {
					Tenant string `json:"tenant"`
				}, error) {
					u.record(r)
					return nil, struct {
						Tenant string `json:"tenant"`
					}{tenant}, nil
				})
		}
		return server
	}
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(tools, nil))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// record counts a call and returns its number.
func (u *upstreams) record(r *http.Request) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, r.Header.Get("X-Tenant")+" "+r.Header.Get("Authorization"))
	return u.calls.Add(1)
}

// gateway is a served configuration.
type gateway struct {
	url      string
	config   string // its file
	log      syncbuf.Buffer
	tokens   sync.Map       // of callers, by name; that of ann is token-of-ann if it has none
	reported syncbuf.Buffer // its warnings
}

func (g *gateway) warnings() string { return g.reported.String() }

// listening is a Reporter that tells where a server listens.
type listening struct {
	silent
	at       chan string
	reported io.Writer
}

// Warn implements Reporter.
func (l listening) Warn(f *fault.Error) { fmt.Fprintln(l.reported, f.At, f.Message) }

func (l listening) Notice(format string, args ...any) {
	if strings.HasPrefix(format, "listening on") {
		l.at <- fmt.Sprintf("http://%v/mcp", args[0])
	}
}

// serveGateway serves a configuration over HTTP until the test ends.
func serveGateway(t *testing.T, text string, with ...func(*ServeOptions)) *gateway {
	return serveIn(t, t.TempDir(), text, with...)
}

func serveIn(t *testing.T, folder, text string, with ...func(*ServeOptions)) *gateway {
	g := &gateway{}
	write(t, folder, "stock.json", personalDocument)
	reporter := listening{at: make(chan string, 1), reported: &g.reported}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	g.config = write(t, folder, "onecall.yaml", text)
	options := &ServeOptions{HTTP: "127.0.0.1:0", Log: slog.NewTextHandler(&g.log, &slog.HandlerOptions{Level: slog.LevelDebug})}
	for _, set := range with {
		set(options)
	}
	go func() {
		ended <- Serve(ctx, &Options{Reporter: reporter, Redactor: &Redactor{}, Config: g.config}, options)
	}()
	select {
	case g.url = <-reporter.at:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// personalConfig has a source of each kind that is called as its caller. ann and bob have the tokens token-of-ann and token-of-bob.
func personalConfig(u *upstreams) string {
	hash := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte("token-of-"+name))) }
	return fmt.Sprintf(`
openapi: {stock: {spec: stock.json, baseUrl: %[1]q, auth: {caller: headers, pass: [X-Tenant]}}}
mcpServers: {desk: {url: "%[1]s/mcp", auth: {caller: headers, pass: [X-Tenant]}}}
http: {endpoints: {note: {url: "%[1]s/note{?big}", auth: {caller: headers, pass: [Authorization, X-Tenant]}}}}
functions: {"stock.*": {cacheTtl: 1h}, "*.delete": {approve: always}}
journal: {store: memory}
results: {ttl: 1h}
access: {tokens: [{name: ann, sha256: %[2]s, tier: admin}, {name: bob, sha256: %[3]s, tier: admin}]}
`, u.url, hash("ann"), hash("bob"))
}

// call calls a tool as a caller with a tenant ("": none) and returns the text of the answer.
func (g *gateway) call(t *testing.T, caller, tenant, tool, args string) string {
	t.Helper()
	_, text := g.send(t, caller, tenant, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`, tool, args))
	return gjson.Get(text, "result.content.0.text").Str
}

// send sends a message, in a session ("": none), and returns the answer.
func (g *gateway) send(t *testing.T, caller, tenant, session, message string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	var token any = "token-of-" + caller
	if known, ok := g.tokens.Load(caller); ok {
		token = known
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": "Bearer " + token.(string), "X-Tenant": tenant, "Mcp-Session-Id": session} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if name := gjson.Get(message, "params.name").Str; session == "" && name != "" {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", name)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	text := body.String()
	if _, data, ok := strings.Cut(text, "data: "); ok {
		text = data
	}
	return response, text
}

// chainOf is a chain of one call.
func chainOf(fn, args string) string { return fmt.Sprintf(`{"steps":[{"fn":%q,"args":%s}]}`, fn, args) }

// expect fails unless a text has one part and none of the others.
func expect(t *testing.T, what, text, want string, not ...string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s: %s\nwant %s", what, text, want)
	}
	for _, no := range not {
		if strings.Contains(text, no) {
			t.Errorf("%s: %s\nmust not have %s", what, text, no)
		}
	}
}

// TestCallersOwn: calls carry what their callers' requests bring, and nothing of one reaches another, nor the same caller with another
// credential.
func TestCallersOwn(t *testing.T) {
	t.Parallel()
	u := startUpstreams(t)
	g := serveGateway(t, personalConfig(u))
	get := chainOf("stock.stock.get", `{"id":"a"}`)

	for _, name := range []string{"stock.stock.get", "desk.whoami", "http.note"} {
		expect(t, "no tenant", g.call(t, "ann", "", "chain", chainOf(name, `{"id":"a"}`)), `"code":"compile"`, "inputSchema", "nearest")
	}
	expect(t, "how to get in", g.call(t, "ann", "", "chain", get), "send the header X-Tenant with each request")
	expect(t, "search", g.call(t, "ann", "", "search", `{"query":"stock"}`),
		`{"name":"stock","state":"locked","error":"stock is called with your own credential: send the header X-Tenant`, "stock.stock.get")
	expect(t, "info", g.call(t, "ann", "", "info", `{}`), `{"name":"desk","state":"locked"`, "degraded")
	expect(t, "an endpoint", g.call(t, "ann", "", "info", `{}`), `{"name":"http.note","state":"locked","error":"http.note is called with your own`)
	if n := u.calls.Load(); n != 0 {
		t.Fatalf("%d calls without a credential", n)
	}

	expect(t, "ann", g.call(t, "ann", "acme", "chain", get), `"tenant":"acme"`, "token-of-ann")
	expect(t, "ann again", g.call(t, "ann", "acme", "chain", get), `"n":1,`) // from the call cache
	expect(t, "bob", g.call(t, "bob", "acme", "chain", get), `"n":2,"tenant":"acme"`)
	expect(t, "another tenant", g.call(t, "ann", "globex", "chain", get), `"n":3,"tenant":"globex"`)
	expect(t, "an argument cannot change it", g.call(t, "ann", "acme", "chain", chainOf("stock.stock.get", `{"id":"a","X-Tenant":"globex"}`)),
		"X-Tenant", `"tenant":"globex"`)

	expect(t, "ann's tools", g.call(t, "ann", "acme", "chain", chainOf("desk.only_acme", `{}`)), `{"tenant":"acme"}`)
	expect(t, "bob's tools", g.call(t, "bob", "globex", "chain", chainOf("desk.only_globex", `{}`)), `{"tenant":"globex"}`)
	expect(t, "not bob's", g.call(t, "bob", "globex", "chain", chainOf("desk.only_acme", `{}`)), `"code":"compile"`, "only_acme\"]")
	expect(t, "search as bob", g.call(t, "bob", "globex", "search", `{"query":"only"}`), "desk.only_globex", "only_acme")

	expect(t, "the token", g.call(t, "ann", "acme", "chain", chainOf("http.note", `{}`)), `"tenant":"acme"`, "token-of-ann")
	u.mu.Lock()
	if last := u.seen[len(u.seen)-1]; last != "acme Bearer token-of-ann" {
		t.Errorf("the endpoint got %q", last)
	}
	for _, call := range u.seen[:3] {
		if strings.Contains(call, "Bearer") {
			t.Errorf("a token was passed on to a source that does not name it: %q", call)
		}
	}
	u.mu.Unlock()
	if log := g.log.String(); strings.Contains(log, "token-of-") {
		t.Errorf("a token is in the log:\n%s", log)
	}
}

// TestCallersOwnResults: a result that was made with a credential is read only with the same.
func TestCallersOwnResults(t *testing.T) {
	t.Parallel()
	g := serveGateway(t, personalConfig(startUpstreams(t)))
	big := g.call(t, "ann", "acme", "chain", `{"steps":[{"fn":"http.note","args":{"big":"`+strings.Repeat("x", 2000)+`"}}],"budget":{"maxTotalTokens":400}}`)
	token := gjson.Get(big, "result.continuation_token").Str
	if token == "" {
		t.Fatalf("no token: %s", big)
	}
	fetch := fmt.Sprintf(`{"continuation_token":%q,"mode":"summary"}`, token)
	expect(t, "another tenant", g.call(t, "ann", "globex", "chain", fetch), "token_expired", "acme")
	expect(t, "no tenant", g.call(t, "ann", "", "chain", fetch), "token_expired", "acme")
	expect(t, "bob", g.call(t, "bob", "acme", "chain", fetch), "token_expired", `"tenant"`)
	expect(t, "ann", g.call(t, "ann", "acme", "chain", fetch), `acme`)
	piece := chainOf("result.get", fmt.Sprintf(`{"token":%q}`, token))
	expect(t, "in a chain", g.call(t, "ann", "globex", "chain", piece), `"ok":false`, "acme")
}

// TestCallersOwnRuns: a run goes on, and is undone, only by a request with the credential with which it began.
func TestCallersOwnRuns(t *testing.T) {
	t.Parallel()
	u := startUpstreams(t)
	g := serveGateway(t, personalConfig(u))
	failed := g.call(t, "ann", "acme", "chain", `{"steps":[{"fn":"stock.stock.get","args":{"id":"a"}},{"fn":"stock.stock.get","args":{"id":"broken"}}]}`)
	run := gjson.Get(failed, "resume").Str
	if run == "" {
		t.Fatalf("no run: %s", failed)
	}
	before := u.calls.Load()
	for _, tenant := range []string{"", "globex"} {
		for _, request := range []string{`{"resume":%q}`, `{"resume":%q,"undo":true}`, `{"resume":%q,"dryRun":true}`,
			`{"resume":%q,"steps":[{"expr":"1"}]}`} {
			expect(t, "tenant "+tenant, g.call(t, "ann", tenant, "chain", fmt.Sprintf(request, run)), `"code":"denied"`, "acme")
		}
	}
	expect(t, "bob", g.call(t, "bob", "acme", "chain", fmt.Sprintf(`{"resume":%q}`, run)), `"code":"token_expired"`)
	if after := u.calls.Load(); after != before {
		t.Errorf("%d calls were sent", after-before)
	}
	expect(t, "ann", g.call(t, "ann", "acme", "chain", fmt.Sprintf(`{"resume":%q,"replace":{"1":{"fn":"stock.stock.get","args":{"id":"b"}}}}`, run)),
		`"status":"reused"`, `"ok":false`)
	for _, field := range []string{`"async":true`, `"asyncAfterMs":10`, `"durable":true`} {
		expect(t, field, g.call(t, "ann", "acme", "chain", `{"steps":[{"fn":"stock.stock.get","args":{"id":"c"}}],`+field+`}`),
			"is not kept after the answer", `"status":"running"`)
	}
	waits := g.call(t, "ann", "acme", "chain", chainOf("stock.stock.delete", `{"id":"a"}`))
	expect(t, "approval", waits, `"code":"approval_required"`)
	approve := fmt.Sprintf(`{"resume":%q,"approve":%q}`, gjson.Get(waits, "resume").Str, gjson.Get(waits, "approve").Str)
	before = u.calls.Load()
	expect(t, "approval by another tenant", g.call(t, "ann", "globex", "chain", approve), `"code":"denied"`)
	if after := u.calls.Load(); after != before {
		t.Error("an approval with another credential sent a call")
	}
	expect(t, "approval", g.call(t, "ann", "acme", "chain", approve), `"tenant":"acme"`)
}

// TestCallersOwnSessions: an MCP session is one of a caller and its credential.
func TestCallersOwnSessions(t *testing.T) {
	t.Parallel()
	g := serveGateway(t, personalConfig(startUpstreams(t)))
	hello, _ := g.send(t, "ann", "acme", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := hello.Header.Get("Mcp-Session-Id")
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	for tenant, want := range map[string]int{"acme": 200, "globex": 404, "": 404} {
		if r, text := g.send(t, "ann", tenant, session, list); r.StatusCode != want {
			t.Errorf("tenant %q: status %d, want %d: %s", tenant, r.StatusCode, want, text)
		}
	}
	flat := &gateway{url: g.url + "?surface=flat"}
	for _, tenant := range []string{"acme", "globex"} {
		r, _ := flat.send(t, "bob", tenant, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		_, text := flat.send(t, "bob", tenant, r.Header.Get("Mcp-Session-Id"), list)
		others := map[string]string{"acme": "only_globex", "globex": "only_acme"}
		expect(t, "flat "+tenant, text, "only_"+tenant, others[tenant])
		expect(t, "flat "+tenant, text, "stock_get")
	}
	r, _ := flat.send(t, "bob", "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	_, text := flat.send(t, "bob", "", r.Header.Get("Mcp-Session-Id"), list)
	expect(t, "flat without a tenant", text, `"chain"`, "only_", "stock_get")
}
