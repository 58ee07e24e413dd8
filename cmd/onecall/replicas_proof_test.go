//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/redisclient/redistest"
)

// roundRobin sends each request to the next of some servers that takes connections, and tells to how many it has sent any.
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
	// A transport of its own: any other test's httptest.Server closes connections of the default one when it ends.
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			for range targets {
				i := int(r.next.Add(1)) % len(targets)
				c, err := net.DialTimeout("tcp", targets[i].Host, time.Second)
				if err != nil {
					continue // it is dead
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
		// Else the front closes the request's body when the answer begins. Where the proxy has not seen its end by then, which is
		// after the last byte, it takes the request for failed and cuts the answer.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	r.url = front.URL + "/mcp"
	return r
}

// replicas are two servers that share what they keep, behind one address.
type replicas struct {
	first, second *serving
	front         *roundRobin
}

func newReplicas(t *testing.T, at, more string) *replicas {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "notes.txt"), []byte("a needle in the hay\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf("results: {store: %q}\nsession: {store: %q, maxTokens: 4000}\nfs: {root: %q}\n%s", at, at, folder, more))
	r := &replicas{first: serveHTTP(t, config), second: serveHTTP(t, config)}
	r.front = newRoundRobin(t, r.first.url, r.second.url)
	return r
}

// anyClient is one of a version of MCP.
func anyClient(t *testing.T, url, version string) *wire {
	t.Helper()
	if version == statelessVersion {
		return stateless(t, url)
	}
	w := &wire{url: url, client: httpClient(t)}
	w.begin(t)
	return w
}

var largeChain = map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "map(1..20000, ({id: #}))"}}}}

// pageOf is one page of a kept result.
func pageOf(t *testing.T, w *wire, token string, n int) (text string, failed bool) {
	t.Helper()
	return w.tool(t, "chain", map[string]any{"lite": true, "continuation_token": token, "mode": "paginated", "page": n, "page_size": 1})
}

// probed makes a large result, and gives its token.
func probed(t *testing.T, w *wire) string {
	t.Helper()
	text, failed := w.tool(t, "chain", largeChain)
	token := gjson.Get(text, "continuation_token").Str
	if failed || token == "" {
		t.Fatalf("no probe: %s", text)
	}
	return token
}

// TestRoundRobin: one client of servers that share what they keep does not notice that there are two. Its pages come from
// either, its session and its budget are the same at both, and the death of one loses nothing.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	for _, version := range []string{statefulVersion, statelessVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newReplicas(t, shownRedis(t), "access: {limits: {perSecond: 10000, burst: 10000}}\n")
			w := anyClient(t, r.front.url, version)
			token := probed(t, w)
			for n := range 10 {
				if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
					t.Errorf("page %d: %s", n+1, text)
				}
			}
			if a, b := r.front.sent[0].Load(), r.front.sent[1].Load(); a < 5 || b < 5 {
				t.Errorf("the one has got %d requests, the other %d", a, b)
			}
			_ = r.first.cmd.Process.Signal(syscall.SIGKILL)
			<-r.first.ended
			for n := range 6 {
				if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
					t.Errorf("page %d after the death of one: %s", n+1, text)
				}
			}
			alive(t, w)
			if version == statefulVersion {
				w.delete(t)
				again := w.send(t, http.MethodPost, w.message(t, "1", "tools/list", nil), nil)
				if again.status != http.StatusNotFound {
					t.Errorf("its ended session: %d %s", again.status, again.body)
				}
			}
		})
	}
}

// TestSharedBudget: the answers of both servers are added up in one budget, also of requests that run at the same time.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, shownRedis(t), "")
	w := anyClient(t, r.front.url, statefulVersion)
	spent := func() int64 {
		text, _ := w.tool(t, "info", map[string]any{})
		return gjson.Get(text, "session.tokens").Int()
	}
	before := spent()
	var all sync.WaitGroup
	var tokens atomic.Int64
	for i := range 10 {
		all.Go(func() {
			request := map[string]any{"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "6 * 7"}}}}
			body := w.message(t, fmt.Sprint(100+i), "tools/call", map[string]any{"name": "chain", "arguments": request})
			reply, err := w.try(t, http.MethodPost, body, nil)
			if err != nil {
				t.Error(err)
				return
			}
			text := reply.answer().Get("result.content.0.text").Str
			tokens.Add(gjson.Get(text, "usage.tokens").Int())
		})
	}
	all.Wait()
	if sum, now := tokens.Load(), spent(); sum == 0 || now < before+sum {
		t.Errorf("%d tokens were answered, and from %d the budget has come to %d", sum, before, now)
	}
	// Past the limit a large answer is a probe, at whichever of the two.
	for spent() < 4000 {
		if _, failed := w.tool(t, "search", map[string]any{"query": "evaluate files grep list", "again": true}); failed {
			t.Fatal("search fails")
		}
	}
	medium := map[string]any{"lite": true, "steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "map(1..400, #)"}}}}
	for range 4 {
		if text, _ := w.tool(t, "chain", medium); gjson.Get(text, "continuation_token").Str == "" {
			t.Errorf("past the session's budget: %.300s", text)
		}
	}
}

// TestSharedLadder: what a session has called at one server counts at the other.
func TestSharedLadder(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, shownRedis(t), "ladder: {mode: enforce, subject: path, rungs: [fs.grep, fs.list, fs.cat]}\n")
	at := func(w *wire, server *serving, fn string, args map[string]any) (string, bool) {
		there := *w
		there.url = server.url
		return there.tool(t, "chain", map[string]any{"steps": []any{map[string]any{"fn": fn, "args": args}}})
	}
	w, other := anyClient(t, r.front.url, statefulVersion), anyClient(t, r.front.url, statefulVersion)
	cat, grep := map[string]any{"path": "notes.txt"}, map[string]any{"pattern": "needle"}
	for _, server := range []*serving{r.first, r.second} {
		if text, failed := at(w, server, "fs.cat", cat); !failed || !strings.Contains(text, "denied") {
			t.Errorf("at once: %s", text)
		}
	}
	if text, failed := at(w, r.first, "fs.grep", grep); failed {
		t.Fatal(text)
	}
	if text, failed := at(w, r.second, "fs.cat", cat); failed || !strings.Contains(text, "needle") {
		t.Errorf("at the other server: %s", text)
	}
	if text, failed := at(other, r.second, "fs.cat", cat); !failed || !strings.Contains(text, "denied") {
		t.Errorf("another session: %s", text)
	}
}

// TestRedisDies: while Redis is away, what needs it says so and the rest works; when it is back, so is everything, without a
// restart.
func TestRedisDies(t *testing.T) {
	t.Parallel()
	const secret = "quite-secret-word"
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--requirepass", secret)
	r := newReplicas(t, "unix://:"+secret+"@"+redis.Socket(), "")
	session, w := anyClient(t, r.front.url, statefulVersion), anyClient(t, r.front.url, statelessVersion)
	token := probed(t, w)
	alive(t, session, w)
	redis.Kill()
	for range 4 { // at both
		if text, failed := pageOf(t, w, token, 3); !failed || gjson.Get(text, "error.code").Str != "unavailable" || strings.Contains(text, secret) {
			t.Errorf("a page without Redis: %s", text)
		}
		alive(t, w)
		reply := session.send(t, http.MethodPost, session.message(t, "1", "tools/call", map[string]any{"name": "info", "arguments": map[string]any{}}), nil)
		if reply.status != http.StatusServiceUnavailable && !strings.Contains(string(reply.body), "unavailable") {
			t.Errorf("a session that cannot be looked for: %d %s", reply.status, reply.body)
		}
		if reply.status == http.StatusNotFound {
			t.Errorf("a client is told that its session has ended: %s", reply.body)
		}
	}
	redis.Restart()
	redistest.Within(t, "pages come again", func() bool {
		text, failed := pageOf(t, w, token, 3)
		return !failed && gjson.Get(text, "items.0.id").Int() == 3
	})
	redistest.Within(t, "the session comes again", func() bool {
		reply, err := session.try(t, http.MethodPost, session.message(t, "1", "tools/list", nil), nil)
		return err == nil && reply.status == http.StatusOK
	})
	alive(t, session, w)
	for n := range 4 {
		if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
			t.Errorf("page %d: %s", n+1, text)
		}
	}
}

// TestSlowRedis: with a Redis that takes its time answers are late, and right.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	slow := redistest.Forward(t, redis.Address(), 64<<10, 20*time.Millisecond)
	r := newReplicas(t, "redis://"+slow.Address(), "")
	for _, version := range []string{statefulVersion, statelessVersion} {
		w := anyClient(t, r.front.url, version)
		token := probed(t, w)
		for n := range 4 {
			if text, failed := pageOf(t, w, token, n+1); failed || gjson.Get(text, "items.0.id").Int() != int64(n+1) {
				t.Errorf("%s: page %d: %s", version, n+1, text)
			}
		}
		alive(t, w)
	}
}
