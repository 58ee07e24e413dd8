package mcp_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// rawServer is an HTTP server with sessions whose answers a test writes itself. The first session is the source's own.
type rawServer struct {
	call   func(w http.ResponseWriter, r *http.Request, id string) // answers calls, and requests for resources and prompts
	stream http.HandlerFunc                                        // serves the session's general stream; nil: list_changed after each change

	capabilities string // "": tools

	mu          sync.Mutex
	listed, all string // tool definitions for the source, and for other sessions; "": the same
	sessions    int
	changed     chan struct{}
}

const okResult = `{"content":[{"type":"text","text":"ok"}]}`

// openRaw opens the source net on a server that lists the tools.
func openRaw(t testing.TB, server *rawServer, o mcpsource.Options, tools string) *mcpsource.Source {
	t.Helper()
	server.listed, server.changed = tools, make(chan struct{}, 1)
	o.Name, o.URL, o.Protocol = "net", listen(t, server), protocol.Stateful
	s := openReady(t, &o)
	return s
}

// change makes the source list other tools, and waits until it does.
func (h *rawServer) change(t testing.TB, s *mcpsource.Source, tools string) {
	t.Helper()
	h.mu.Lock()
	h.listed = tools
	h.mu.Unlock()
	h.changed <- struct{}{}
	want := int(gjson.Get("["+tools+"]", "#").Int())
	until(t, s, func() bool {
		functions := s.Functions()
		return len(functions) == want && (want == 0 || functions[want-1].Name == "net."+gjson.Get("["+tools+"]", fmt.Sprint(want-1, ".name")).Str)
	})
}

func (h *rawServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil || r.Method == http.MethodDelete:
		return
	case r.Method == http.MethodGet && h.stream != nil:
		h.stream(w, r)
		return
	case r.Method == http.MethodGet:
		h.reportChanges(w, r)
		return
	}
	id := gjson.GetBytes(body, "id").Raw
	h.mu.Lock()
	defer h.mu.Unlock()
	switch gjson.GetBytes(body, "method").Str {
	case "initialize":
		h.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(h.sessions))
		answerJSON(w, id, `{"protocolVersion":"2025-11-25","capabilities":`+cmp.Or(h.capabilities, `{"tools":{"listChanged":true}}`)+
			`,"serverInfo":{"name":"x","version":"1"}}`)
	case "tools/list":
		if h.capabilities != "" && !gjson.Get(h.capabilities, "tools").Exists() {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
			return
		}
		tools := h.listed
		if h.all != "" && r.Header.Get("Mcp-Session-Id") != "1" {
			tools = h.all
		}
		answerJSON(w, id, `{"tools":[`+tools+`]}`)
	case "tools/call", "resources/read", "prompts/get":
		h.mu.Unlock()
		defer h.mu.Lock()
		h.call(w, r, id)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (h *rawServer) reportChanges(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-h.changed:
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

func answerJSON(w http.ResponseWriter, id, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// toolList returns the definitions of tools that have only names.
func toolList(names ...string) string {
	var tools []string
	for _, name := range names {
		tools = append(tools, fmt.Sprintf(`{"name":%q}`, name))
	}
	return strings.Join(tools, ",")
}

func find(t testing.TB, functions []steps.Function, name string) *steps.Function {
	t.Helper()
	i := slices.IndexFunc(functions, func(fn steps.Function) bool { return fn.Name == name })
	if i < 0 {
		t.Fatalf("the source has no function %s", name)
	}
	return &functions[i]
}
