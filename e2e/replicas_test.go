//go:build e2e && unix

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// roundRobin sends each request to the next server that accepts connections. sent counts the requests by server.
type roundRobin struct {
	url  string
	next atomic.Int64
	sent []atomic.Int64
}

func newRoundRobin(t *testing.T, servers ...string) *roundRobin {
	t.Helper()
	r := &roundRobin{sent: make([]atomic.Int64, len(servers))}
	targets := make([]*url.URL, len(servers))
	for i, server := range servers {
		target, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		targets[i] = target
	}
	// Other tests' httptest servers close the connections of the default transport when they end.
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			for range targets {
				i := int(r.next.Add(1)) % len(targets)
				c, err := net.DialTimeout("tcp", targets[i].Host, time.Second)
				if err != nil {
					continue // the server is dead
				}
				c.Close()
				r.sent[i].Add(1)
				p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", targets[i].Host, targets[i].Host
				return
			}
		},
		FlushInterval: -1,
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the front closes the request's body when the answer begins. If the proxy has not read the body's end by then, it
		// takes the request as failed and cuts the answer.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	r.url = front.URL + "/mcp"
	return r
}

// replicas are two servers behind one address that share results.
type replicas struct {
	first, second *httpServer
	front         *roundRobin
}

func newReplicas(t *testing.T, database string, more ...string) *replicas {
	t.Helper()
	config := clitest.Write(t, t.TempDir(), "onecall.yaml", inDatabase(database)+strings.Join(more, "\n"))
	r := &replicas{first: serveHTTP(t, config, "--replica", "first"), second: serveHTTP(t, config, "--replica", "second")}
	r.front = newRoundRobin(t, r.first.url, r.second.url)
	return r
}

// inDatabase returns a configuration whose runs and results are in a database.
func inDatabase(url string) string {
	return fmt.Sprintf("results: {store: postgres}\njournal: {store: %q, key: '${PATH}${PATH}${PATH}'}\n", url)
}

// anyClient returns a client of a version of MCP.
func anyClient(t *testing.T, url, version string) *rawClient {
	t.Helper()
	if version == statelessVersion {
		return stateless(t, url)
	}
	w := &rawClient{url: url, client: httpClient(t)}
	w.begin(t)
	return w
}

var largeChain = map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval",
	"args": map[string]any{"expression": "map(1..20000, ({id: #}))"}}}}

// pageOf returns one page of a stored result.
func pageOf(t *testing.T, w *rawClient, token string, n int) (text string, failed bool) {
	t.Helper()
	return w.tool(t, "chain", map[string]any{"lite": true, "continuation_token": token, "mode": "paginated", "page": n, "page_size": 1})
}

// makeProbe stores a large result and returns its token.
func makeProbe(t *testing.T, w *rawClient) string {
	t.Helper()
	text, failed := w.tool(t, "chain", largeChain)
	token := gjson.Get(text, "continuation_token").Str
	if failed || token == "" {
		t.Fatalf("the answer to a large result is %s, want a probe", text)
	}
	return token
}

// TestRoundRobin checks that two servers can share the work of a client without a session. Either serves its pages, and if one is killed
// nothing is lost.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, postgrestest.Start(t).Database(t))
	w := stateless(t, r.front.url)
	token := makeProbe(t, w)
	for n := range 10 {
		if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
			t.Errorf("page %d: got %s, want item %d", n+1, text, n+1)
		}
	}
	if a, b := r.front.sent[0].Load(), r.front.sent[1].Load(); a < 5 || b < 5 {
		t.Errorf("the servers got %d and %d requests, want at least 5 each", a, b)
	}
	_ = r.first.cmd.Process.Signal(syscall.SIGKILL)
	<-r.first.ended
	for n := range 6 {
		if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
			t.Errorf("page %d after one server was killed: got %s, want item %d", n+1, text, n+1)
		}
	}
	checkServes(t, w)
}

// TestReplicaSession checks that a session id starts with the name of its replica. Another replica answers 404, so the client
// opens a new session, in which it can read the first replica's results.
func TestReplicaSession(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, postgrestest.Start(t).Database(t))
	w := anyClient(t, r.first.url, statefulVersion)
	if !strings.HasPrefix(w.session, "first-") || len(w.session) < len("first-")+26 {
		t.Errorf("the session id is %q, want first- and 26 characters or more", w.session)
	}
	token := makeProbe(t, w)
	w.url = r.second.url
	if reply := w.send(t, http.MethodPost, w.message(t, "1", "tools/list", nil), nil); reply.status != http.StatusNotFound {
		t.Errorf("a session of another replica: status %d, want 404: %s", reply.status, reply.body)
	}
	w = anyClient(t, r.second.url, statefulVersion)
	if text, failed := pageOf(t, w, token, 7); failed || gjson.Get(text, "items.0.id").Int() != 7 || !strings.HasPrefix(w.session, "second-") {
		t.Errorf("page 7 in the session %s: got %s, want item 7 and a session of the second replica", w.session, text)
	}
}

// TestTaskAtAnotherReplica: a replica asks what a task asks that another one began, takes the answer and has the task go on, also if the first
// was killed. Both give its result.
func TestTaskAtAnotherReplica(t *testing.T) {
	t.Parallel()
	const config = "access: {http: read_write}\napprove: write\napproveBy: person\nfunctions: {text.replace: {effect: write}}\n"
	for _, version := range []string{statelessVersion, statefulVersion} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s kill=%t", version, kill), func(t *testing.T) {
				t.Parallel()
				r := newReplicas(t, postgrestest.Start(t).Database(t), config)
				first, second := newTaskClient(t, r.first.url, version), newTaskClient(t, r.second.url, version)
				began := first.send(t, "tools/call", `"name":"chain","arguments":{"async":true,"lite":true,"steps":[`+
					`{"text.replace":{"text":"a b","pattern":"b","with":"c"}}]}`)
				id := began.Get("result.taskId").Str
				if id == "" {
					t.Fatalf("no task began: %s", began)
				}
				asks := first.await(t, id, "input_required")
				if kill {
					_ = r.first.cmd.Process.Signal(syscall.SIGKILL)
					<-r.first.ended
				}
				if there := second.await(t, id, "input_required"); there.Get("inputRequests").Raw != asks.Get("inputRequests").Raw {
					t.Errorf("asked %s at one replica, %s at the other", asks, there)
				}
				for key := range asks.Get("inputRequests").Map() {
					second.send(t, "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept"}}`, id, key))
				}
				for _, c := range map[bool][]*taskClient{true: {second}, false: {second, first}}[kill] {
					done := c.await(t, id, "completed").Get("result")
					if done.Get("content.0.text").Str != `"a c"` || done.Get("isError").Bool() {
						t.Errorf("the task ended as %s, want \"a c\"", done)
					}
				}
			})
		}
	}
}

// taskClient is a client that follows tasks and asks its user.
type taskClient struct {
	*rawClient
	meta string
}

func newTaskClient(t *testing.T, url, version string) *taskClient {
	t.Helper()
	const can = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	w := &rawClient{url: url, client: httpClient(t), version: version}
	if version == statelessVersion {
		return &taskClient{w, `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `",` +
			`"io.modelcontextprotocol/clientCapabilities":` + can + `,"io.modelcontextprotocol/clientInfo":{"name":"wire","version":"1"}}`}
	}
	w.version = ""
	r := w.send(t, http.MethodPost, []byte(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+can, 1)), nil)
	w.version, w.session = version, r.header.Get("Mcp-Session-Id")
	return &taskClient{w, ""}
}

// send sends a request and returns its response.
func (c *taskClient) send(t *testing.T, method, params string) gjson.Result {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + c.meta + `}}`
	r := c.rawClient.send(t, http.MethodPost, []byte(body), func(r *http.Request) {
		if task := gjson.Get(body, "params.taskId").Str; task != "" && c.meta != "" {
			r.Header.Set("Mcp-Name", task)
		}
	})
	return r.answer()
}

// await waits until a task has a status, and returns it.
func (c *taskClient) await(t *testing.T, id, status string) (got gjson.Result) {
	t.Helper()
	polltest.Until(t, "the task is "+status, func() bool {
		got = c.send(t, "tasks/get", `"taskId":"`+id+`"`).Get("result")
		return got.Get("status").Str == status
	})
	return got
}

// TestDatabaseRestart checks that while PostgreSQL is down results are unavailable and what needs neither them nor the journal works. When
// it is back after a crash, so are the results, without a restart.
func TestDatabaseRestart(t *testing.T) {
	t.Parallel()
	database := postgrestest.Start(t)
	r := newReplicas(t, database.Database(t))
	session, w := anyClient(t, r.first.url, statefulVersion), stateless(t, r.front.url)
	token := makeProbe(t, w)
	database.Stop(syscall.SIGKILL)
	for range 4 { // two requests for each replica
		if text, failed := pageOf(t, w, token, 3); !failed || gjson.Get(text, "error.code").Str != "unavailable" ||
			strings.Contains(text, postgrestest.Password) {
			t.Errorf("a page without PostgreSQL: %s, want unavailable", text)
		}
		checkServes(t, session, w)
	}
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "pages are available again", func() bool {
		text, failed := pageOf(t, w, token, 3)
		return !failed && gjson.Get(text, "items.0.id").Int() == 3
	})
	for n := range 4 {
		if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
			t.Errorf("page %d: got %s, want item %d", n+1, text, n+1)
		}
	}
}
