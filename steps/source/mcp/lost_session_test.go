package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// forgetful is a server that knows only its newest session, until it forgets that too.
type forgetful struct {
	mu       sync.Mutex
	sessions int
	live     string   // the known session; "": none
	status   int      // of its answer to a request of another session
	body     string   // likewise
	bad      string   // the tool whose calls it always refuses so
	received []string // the methods and tools of requests other than the greeting, with + if their session is known
}

func (h *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method == http.MethodDelete {
		return
	}
	message := gjson.ParseBytes(body)
	method, id := message.Get("method").Str, message.Get("id").Raw
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.live != "" && r.Header.Get("Mcp-Session-Id") == h.live
	what := method + " " + message.Get("params.name").Str
	switch {
	case method == "initialize":
		h.sessions++
		h.live = fmt.Sprint("s", h.sessions)
		w.Header().Set("Mcp-Session-Id", h.live)
		answerJSON(w, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"x","version":"1"}}`)
		return
	case !known || h.bad != "" && message.Get("params.name").Str == h.bad:
		h.received = append(h.received, what)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(h.status)
		fmt.Fprint(w, strings.ReplaceAll(h.body, "THIS", id))
		return
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case id == "":
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.received = append(h.received, what+"+")
	switch method {
	case "tools/list":
		answerJSON(w, id, `{"tools":[{"name":"get","annotations":{"readOnlyHint":true}},{"name":"put"},`+
			`{"name":"set","annotations":{"idempotentHint":true}}]}`)
	case "prompts/get":
		answerJSON(w, id, `{"messages":[]}`)
	default:
		answerJSON(w, id, okResult)
	}
}

// forget makes the server forget its session, and returns what it received since.
func (h *forgetful) forget(status int, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live, h.status, h.body, h.received = "", status, body, nil
}

// refuse makes the server refuse each call of a tool.
func (h *forgetful) refuse(tool string, status int, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad, h.status, h.body = tool, status, body
}

// calls returns the requests of this kind that the server received since forget, and how many sessions it had.
func (h *forgetful) calls(method string) (calls []string, sessions int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range h.received {
		if rest, ok := strings.CutPrefix(what, method+" "); ok {
			calls = append(calls, rest)
		}
	}
	return calls, h.sessions
}

func openForgetful(t *testing.T, o mcpsource.Options) (*forgetful, *mcpsource.Source) {
	h := &forgetful{}
	o.Name, o.URL, o.Protocol = "net", listen(t, h), protocol.Stateful
	return h, openReady(t, &o)
}

// lostSessions are answers that say that a session is not known.
var lostSessions = map[string]struct {
	status int
	body   string
}{
	"404":                   {404, ""},
	"404 of another id":     {404, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
	"404 without id":        {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
	"400 no valid session":  {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`},
	"400 not found":         {400, `Session not found`},
	"400 not found, own id": {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"session not found"},"id":THIS}`},
	"400 not initialize":    {400, `{"error":"Invalid session or not an initialize request"}`},
}

// A server that does not know the session has not carried out the call, so even a write is sent again, in a new session.
func TestLostSession(t *testing.T) {
	t.Parallel()
	for name, lost := range lostSessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, s := openForgetful(t, mcpsource.Options{})
			h.forget(lost.status, lost.body)
			if got := mustCall(t, s, "net.put", `{}`); got != `"ok"` {
				t.Errorf("got %s, want ok", got)
			}
			if calls, sessions := h.calls("tools/call"); !slices.Equal(calls, []string{"put", "put+"}) || sessions != 2 {
				t.Errorf("the server received the calls %q in %d sessions, want put twice in 2", calls, sessions)
			}
		})
	}
}

// TestSessionOfTheTool: a tool that does not find a session of its own has been called. A call that writes is not sent again, and its fault
// says what the tool says.
func TestSessionOfTheTool(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"-32603", "-32602", "7", `"E_SESSION"`} {
		h, s := openForgetful(t, mcpsource.Options{})
		h.refuse("put", http.StatusBadRequest, `{"jsonrpc":"2.0","id":THIS,"error":{"code":`+code+`,"message":"browser session not found"}}`)
		_, err := function(t, s, "net.put").Call(t.Context(), []byte(`{}`))
		if f, _ := fault.As(err); f == nil || !strings.Contains(f.Message, "browser session not found") {
			t.Errorf("%s: got %v, want the tool's text", code, err)
		}
		if calls, _ := h.calls("tools/call"); !slices.Equal(calls, []string{"put"}) {
			t.Errorf("%s: the server received the calls %q, want put once", code, calls)
		}
	}
}

// The other requests of a client's session find the new session as well.
func TestLostSessionOfClient(t *testing.T) {
	t.Parallel()
	for name, lost := range lostSessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, s := openForgetful(t, mcpsource.Options{AsProxy: true})
			l := openSession(t, s, &mcpsource.DownstreamClient{Protocol: protocol.Stateful})
			h.forget(lost.status, lost.body)
			l.do(t, "prompts/get", `{"name":"p"}`)
			h.forget(lost.status, lost.body)
			if functions, err := l.Functions(t.Context()); err != nil || len(functions) != 4 {
				t.Errorf("listed %d functions, %v, want 4", len(functions), err)
			}
			h.forget(lost.status, lost.body)
			if raw, err := callTool(t, l, "net.put", `{}`, ""); err != nil || raw != okResult {
				t.Errorf("the call got %s, %v", raw, err)
			}
		})
	}
}

// A 400 that does not say why may be about the session: what is safe to repeat is sent again in a new one, anything else fails, and
// the next call has a new session.
func TestDoubtedSession(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "Bad Request", `{"jsonrpc":"2.0","id":THIS,"error":{"code":-32600,"message":"Bad Request"}}`} {
		h, s := openForgetful(t, mcpsource.Options{})
		for _, tool := range []string{"get", "set"} {
			h.forget(http.StatusBadRequest, body)
			mustCall(t, s, "net."+tool, `{}`)
			if calls, _ := h.calls("tools/call"); !slices.Equal(calls, []string{tool, tool + "+"}) {
				t.Errorf("%q: the server received %q, want %s twice", body, calls, tool)
			}
		}
		h.forget(http.StatusBadRequest, body)
		f := mustFail(t.Context(), t, s, "net.put", `{}`, fault.FunctionFailed)
		if f.Status != http.StatusBadRequest || f.Outcome != "" {
			t.Errorf("%q: got %+v, want the status 400 and no outcome", body, f)
		}
		mustCall(t, s, "net.put", `{}`)
		if calls, sessions := h.calls("tools/call"); !slices.Equal(calls, []string{"put", "put+"}) || sessions != 4 {
			t.Errorf("%q: the server received %q, and had %d sessions, want one call each in the third and the fourth", body, calls, sessions)
		}
		l := openSession(t, s, &mcpsource.DownstreamClient{Protocol: protocol.Stateful})
		h.forget(http.StatusBadRequest, body)
		l.do(t, "prompts/get", `{"name":"p"}`)
	}
}

// A 400 that the new session answers too is about the call, and the session stays.
func TestRefusedInEachSession(t *testing.T) {
	t.Parallel()
	h, s := openForgetful(t, mcpsource.Options{})
	h.refuse("get", http.StatusBadRequest, "no such box")
	if f := mustFail(t.Context(), t, s, "net.get", `{}`, fault.FunctionFailed); !strings.Contains(f.Message, "no such box") {
		t.Errorf("got %q, want the text of the answer", f.Message)
	}
	mustCall(t, s, "net.put", `{}`)
	if calls, sessions := h.calls("tools/call"); !slices.Equal(calls, []string{"get", "get", "put+"}) || sessions != 2 {
		t.Errorf("the server received %q in %d sessions, want get twice and put in 2", calls, sessions)
	}
}

// A 400 to the request that opens the session's event stream again ends the session.
func TestLostSessionOfEventStream(t *testing.T) {
	t.Parallel()
	var streams sync.Map
	server := &rawServer{stream: func(w http.ResponseWriter, r *http.Request) {
		if _, again := streams.LoadOrStore(r.Header.Get("Mcp-Session-Id"), true); again {
			http.Error(w, "Bad Request", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "retry: 1\nid: 1\ndata:\n\n")
		if r.Header.Get("Mcp-Session-Id") != "1" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}}
	s := openRaw(t, server, mcpsource.Options{}, toolList("a"))
	until(t, s, func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return server.sessions == 2
	})
}
