//go:build e2e && unix

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// slowService is an HTTP service that never answers. It reports when a request arrives and when its client disconnects.
type slowService struct {
	url            string
	arrived, ended chan struct{}
}

func newSlowService(t *testing.T) *slowService {
	s := &slowService{arrived: make(chan struct{}, 100), ended: make(chan struct{}, 100)}
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.arrived <- struct{}{}
		select {
		case <-r.Context().Done():
			s.ended <- struct{}{}
		case <-stop:
		}
	}))
	t.Cleanup(func() { close(stop); server.Close() })
	s.url = server.URL
	return s
}

// config returns a configuration that allows chains to call the service.
func (s *slowService) config(t *testing.T) string {
	return clitest.Write(t, t.TempDir(), "onecall.yaml",
		fmt.Sprintf("access: {http: read_write}\nhttp: {allow: [%q]}\nfunctions: {http.get: {timeoutMs: 600000}}\n",
			strings.TrimPrefix(s.url, "http://")))
}

// chain returns a chain that waits for the service.
func (s *slowService) chain() map[string]any {
	return map[string]any{"name": "chain", "arguments": map[string]any{"steps": []any{map[string]any{"fn": "http.get",
		"args": map[string]any{"url": s.url}}}}}
}

// await waits for an event. what describes it.
func await(t *testing.T, event <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(clitest.TooLong):
		t.Fatalf("not within %v: %s", clitest.TooLong, what)
	}
}

// checkServes checks that a server serves clients of both kinds.
func checkServes(t testing.TB, clients ...*rawClient) {
	t.Helper()
	for _, w := range clients {
		text, failed := w.tool(t, "chain", map[string]any{"lite": true,
			"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "6 * 7"}}}})
		if failed || text != "42" {
			t.Fatalf("the server answered %s, want 42", text)
		}
	}
}

// abusedServer is a server under abuse, with two well-behaved clients that it must keep serving.
type abusedServer struct {
	*measuredServer
	slow                *slowService
	stateful, stateless *rawClient
}

// wantRefused checks that a request was refused: by an HTTP status 4xx, a JSON-RPC error, or a tool's error.
func wantRefused(t *testing.T, r *reply) {
	t.Helper()
	if result := r.answer().Get("result"); result.Get("isError").Bool() &&
		gjson.Get(result.Get("content.0.text").String(), "error.code").String() != "" {
		return
	}
	if m := r.answer(); m.Get("error.code").Type == gjson.Number && m.Get("error.message").String() != "" && !m.Get("result").Exists() {
		return
	}
	if r.status < 400 || r.status > 499 {
		t.Errorf("the request was answered %d %.500s, want an error or a status 4xx", r.status, r.body)
	}
}

// TestHTTPAbuse sends a server malformed requests. After each case it checks that other clients are served, and at the end that the server
// has released what it used for the clients.
func TestHTTPAbuse(t *testing.T) {
	t.Parallel()
	slow := newSlowService(t)
	a := &abusedServer{measuredServer: serveMeasured(t, slow.config(t)), slow: slow}
	t.Run("first", func(t *testing.T) { checkServes(t, stateful(t, a.url), stateless(t, a.url)) })
	before := a.sample(t)
	t.Run("all", func(t *testing.T) {
		a.stateful, a.stateless = stateful(t, a.url), stateless(t, a.url)
		for _, c := range []struct {
			name  string
			abuse func(*testing.T, *abusedServer)
		}{
			{"bodies", badBodies}, {"methods", badMethods}, {"ids", requestIDs}, {"deep", deepBodies},
			{"large", largeBodies},
			{"versions", versions}, {"stray", strayMessages}, {"cancel", cancelCalls}, {"vanish", dropClients}, {"slow writers", slowWriters},
			{"slow readers", slowReaders}, {"sessions", quickSessions},
		} {
			t.Run(c.name, func(t *testing.T) { c.abuse(t, a) })
			checkServes(t, a.stateful, a.stateless)
		}
	})
	a.waitUntilSettled(t, before, map[string]float64{goroutinesUsed: 10, socketsUsed: 5}, func() {})
}

// both runs a case for a client with a session and one without.
func (a *abusedServer) both(t *testing.T, do func(t *testing.T, w *rawClient)) {
	t.Helper()
	for name, w := range map[string]*rawClient{"stateful": a.stateful, "stateless": a.stateless} {
		t.Run(name, func(t *testing.T) { do(t, w) })
	}
}

func badBodies(t *testing.T, a *abusedServer) {
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, body := range []string{
		"", " ", "null", "true", "7", `"x"`, "[]", "{}", "{", list[:len(list)-1], list + "x", list + list, "\ufeff" + list, "[" + list +
			"," + list + "]",
		"\x00", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\xff\"}", `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`,
		`{"id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"chain","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 1<<20) + `"}`,
	} {
		a.both(t, func(t *testing.T, w *rawClient) {
			wantRefused(t, w.send(t, http.MethodPost, []byte(body), nil))
		})
	}
	// A tool refuses wrong arguments with an error in its result.
	for _, arguments := range []any{7, "x", []any{}, map[string]any{}, map[string]any{"steps": "x"},
		map[string]any{"steps": []any{}, "nonsense": 1}} {
		a.both(t, func(t *testing.T, w *rawClient) {
			for _, tool := range []string{"chain", "search"} {
				if tool == "search" && fmt.Sprint(arguments) == "map[]" {
					continue // a correct request
				}
				wantRefused(t, w.send(t, http.MethodPost, w.message(t, "1", "tools/call", map[string]any{"name": tool, "arguments": arguments}), nil))
			}
		})
	}
}

func badMethods(t *testing.T, a *abusedServer) {
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead,
		http.MethodOptions, "NONSENSE"} {
		t.Run(method, func(t *testing.T) {
			for _, session := range []string{"", "no-such-session"} {
				w := *a.stateful
				w.session = session
				if r := w.send(t, method, nil, nil); r.status < 400 || r.status > 499 {
					t.Errorf("session %q: status %d, want 4xx: %s", session, r.status, r.body)
				}
			}
		})
	}
	for _, method := range []string{"nothing/there", "tools/lists", "rpc.discover", "notifications/nothing"} {
		a.both(t, func(t *testing.T, w *rawClient) {
			r := w.send(t, http.MethodPost, w.message(t, "1", method, nil), nil)
			wantRefused(t, r)
			if code := r.answer().Get("error.code").Int(); w.version == statelessVersion && code != -32601 && code != -32600 {
				t.Errorf("%s: want the error -32601 or -32600: %d %s", method, r.status, r.body)
			}
		})
	}
}

// requestIDs sends ids of every kind. The answer to a valid id must have that id. Any other request must be refused, or answered with the
// same id.
func requestIDs(t *testing.T, a *abusedServer) {
	for _, c := range []struct {
		id    string
		valid bool
	}{
		{`1`, true}, {`0`, true}, {`-1`, true}, {`"a"`, true}, {`""`, true}, {`"1"`, true}, {`"tünnel \" \\ \u2028"`, true},
		{`"` + strings.Repeat("x", 10000) + `"`, true},
		{`9007199254740991`, true}, {`9007199254740993`, false}, {`9223372036854775807`, false}, {`9223372036854775808`, false},
		{`123456789012345678901234567890`, false},
		{`1.5`, false}, {`1e400`, false}, {`null`, false}, {`true`, false}, {`[1]`, false}, {`{"a":1}`, false},
	} {
		a.both(t, func(t *testing.T, w *rawClient) {
			r := w.send(t, http.MethodPost, w.message(t, c.id, "tools/list", nil), nil)
			m := r.answer()
			same := m.Get("id").Raw == c.id || m.Get("id").Type == gjson.String && m.Get("id").String() == gjson.Parse(c.id).String()
			switch {
			case m.Get("result").Exists() && !same:
				t.Errorf("the answer to %.50s has the id %.50s", c.id, m.Get("id").Raw)
			case c.valid && !m.Get("result").Exists():
				t.Errorf("the id %.50s is refused: %d %.300s", c.id, r.status, r.body)
			case !m.Get("result").Exists():
				wantRefused(t, r)
			}
		})
	}
}

func deepBodies(t *testing.T, a *abusedServer) {
	const depth = 500_000 // one byte for each level: below the maximum size of a message
	nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	objects := strings.Repeat(`{"a":`, depth/4) + "1" + strings.Repeat("}", depth/4)
	for _, body := range []string{
		nested, strings.Repeat("[", 4*depth), objects,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + nested + `}}`,
		`{"jsonrpc":"2.0","id":` + nested + `,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":` + objects + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"input":` + objects +
			`,"steps":[{"fn":"expr.eval","args":{"expression":"1"}}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"expr.eval","args":{"expression":"` + strings.Repeat("(", depth) + `1` + strings.Repeat(")", depth) + `"}}]}}}`,
	} {
		a.both(t, func(t *testing.T, w *rawClient) {
			wantRefused(t, w.send(t, http.MethodPost, []byte(body), nil))
		})
		checkServes(t, a.stateful)
	}
}

func largeBodies(t *testing.T, a *abusedServer) {
	const maxBytes = 4 << 20
	a.both(t, func(t *testing.T, w *rawClient) {
		large := w.message(t, "1", "tools/call", map[string]any{"name": "chain",
			"arguments": map[string]any{"description": strings.Repeat("x", maxBytes)}})
		if r, err := w.try(t, http.MethodPost, large, nil); err == nil { // the connection may be cut while the request is being sent
			wantRefused(t, r)
		}
		endless := func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(io.LimitReader(endlessBlanks{}, 1<<30)), -1
		}
		if r, err := w.try(t, http.MethodPost, nil, endless); err == nil {
			wantRefused(t, r)
		}
		// A request just below the maximum is served.
		args := map[string]any{"lite": true, "description": strings.Repeat("x", maxBytes-2000),
			"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1"}}}}
		if text, failed := w.tool(t, "chain", args); failed || text != "1" {
			t.Errorf("a request below the maximum size: got %.300s, want 1", text)
		}
	})
}

type endlessBlanks struct{}

func (endlessBlanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func versions(t *testing.T, a *abusedServer) {
	for requested, accepted := range map[string][]string{
		"2024-11-05": {"2024-11-05", statefulVersion}, "2025-03-26": {"2025-03-26", statefulVersion}, "2025-06-18": {"2025-06-18"},
		statefulVersion: {statefulVersion},
		"1999-01-01":    {statefulVersion}, "": {statefulVersion}, "2999-12-31": {statefulVersion, statelessVersion}, "nonsense": {statefulVersion},
	} {
		t.Run(requested, func(t *testing.T) {
			w := &rawClient{url: a.url, client: httpClient(t)}
			r := w.send(t, http.MethodPost, []byte(strings.Replace(initialize, statefulVersion, requested, 1)), nil)
			w.version, w.session = statefulVersion, r.header.Get("Mcp-Session-Id")
			if w.session != "" {
				t.Cleanup(func() { w.delete(t) })
			}
			got := r.answer().Get("result.protocolVersion").String()
			for _, version := range accepted {
				if got == version {
					w.version = version
					return
				}
			}
			if got != "" {
				t.Errorf("negotiated %q, want one of %q", got, accepted)
			}
			wantRefused(t, r)
		})
	}
	w := *a.stateless
	message := bytes.Replace(w.message(t, "1", "tools/list", nil), []byte(statelessVersion), []byte("2999-12-31"), 1)
	wantRefused(t, w.send(t, http.MethodPost, message, func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2999-12-31") }))
	wantRefused(t, w.send(t, http.MethodPost, message, nil)) // header and body differ
}

// strayMessages sends answers without a request, and notifications about unknown requests.
func strayMessages(t *testing.T, a *abusedServer) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":77,"result":{}}`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","id":null,"result":7}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/nothing","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"info"}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
	} {
		a.both(t, func(t *testing.T, w *rawClient) {
			r := w.send(t, http.MethodPost, []byte(body), nil)
			if r.status >= 500 || r.answer().Get("result").Exists() {
				t.Errorf("%s: want no result and no server error: %d %s", body, r.status, r.body)
			}
		})
	}
}
