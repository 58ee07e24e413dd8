package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// tool is a function of the upstream. Each write is told apart by its argument ref.
type tool struct {
	name       string
	writes     bool
	idempotent bool // a second call with the same ref changes nothing, and its answer is that of the first
}

// tools are those of the upstream.
var tools = []tool{
	{name: "customer_get"}, {name: "stock_get"}, {name: "account_get"}, {name: "hosts_list"},
	{name: "order_create", writes: true}, {name: "order_confirm", writes: true}, {name: "invoice_send", writes: true},
	{name: "account_transfer", writes: true, idempotent: true},
	{name: "host_create", writes: true}, {name: "disk_attach", writes: true}, {name: "dns_set", writes: true, idempotent: true},
	{name: "row_update", writes: true}, {name: "ticket_open", writes: true}, {name: "ticket_note", writes: true},
	{name: "mail_send", writes: true},
}

// upstream is the server that all arms call, and the log of what it has applied. It stays itself when it is "killed": its connections and
// its listener are closed, and what it has applied stays, as in the database of a service.
type upstream struct {
	address string
	handler http.Handler

	mu      sync.Mutex
	server  *http.Server
	applied []entry
	trial   *trial // the one under way, whose fault is injected; nil: none
}

// entry is a write that was applied.
type entry struct{ ref, id string }

// newUpstream starts an upstream at a free port of loopback.
func newUpstream() *upstream {
	u := &upstream{address: "127.0.0.1:0"}
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	for i := range tools {
		t := &tools[i]
		no := false
		server.AddTool(&sdk.Tool{Name: t.name, Description: strings.ReplaceAll(t.name, "_", " ") + ".",
			InputSchema:  json.RawMessage(`{"type":"object"}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`),
			Annotations:  &sdk.ToolAnnotations{ReadOnlyHint: !t.writes, IdempotentHint: t.idempotent, DestructiveHint: &no}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				result := u.do(t, r.Params.Arguments)
				return &sdk.CallToolResult{StructuredContent: json.RawMessage(result), Content: []sdk.Content{&sdk.TextContent{Text: result}}}, nil
			})
	}
	u.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	u.listen()
	return u
}

func (u *upstream) url() string { return "http://" + u.address + "/mcp" }

// listen listens at the address, again after a crash.
func (u *upstream) listen() {
	var l net.Listener
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if l, err = net.Listen("tcp", u.address); err == nil {
			break
		}
		harness.FailIf(time.Since(began) > time.Minute, "the upstream cannot listen again: %w", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.address = l.Addr().String()
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(l) }(u.server)
}

// crash closes the listener and all connections at once.
func (u *upstream) crash() {
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = u.server.Close()
}

// wait waits until the upstream listens.
func (u *upstream) wait() {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", u.address); err == nil {
			_ = c.Close()
			return
		}
	}
}

// do carries out a call and returns its result. A write is logged before it is answered.
func (u *upstream) do(t *tool, args []byte) string {
	if !t.writes {
		return fmt.Sprintf(`{"id":%q,"left":7}`, t.name+"-"+gjson.GetBytes(args, "of").String())
	}
	ref := gjson.GetBytes(args, "ref").String()
	u.mu.Lock()
	defer u.mu.Unlock()
	if t.idempotent {
		if i := slices.IndexFunc(u.applied, func(e entry) bool { return e.ref == ref }); i >= 0 {
			return fmt.Sprintf(`{"id":%q}`, u.applied[i].id)
		}
	}
	id := fmt.Sprintf("%s-%d", t.name, len(u.applied))
	u.applied = append(u.applied, entry{ref, id})
	return fmt.Sprintf(`{"id":%q}`, id)
}

// times returns how often each write of a trial was applied, by its ref.
func (u *upstream) times(t *trial) map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := map[string]int{}
	for _, e := range u.applied {
		if strings.HasPrefix(e.ref, t.name+".") {
			n[e.ref]++
		}
	}
	return n
}

// idOf returns the id that the first application of a write answered; "": it was not applied.
func (u *upstream) idOf(ref string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range u.applied {
		if e.ref == ref {
			return e.id
		}
	}
	return ""
}

// play makes the trial the one under way; nil: none is.
func (u *upstream) play(t *trial) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.trial = t
}

// ServeHTTP passes a message on, and injects the fault of the trial under way at its call.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	message := gjson.ParseBytes(body)
	if message.Get("method").Str != "tools/call" {
		u.handler.ServeHTTP(w, r)
		return
	}
	u.mu.Lock()
	t := u.trial
	u.mu.Unlock()
	inject := t != nil && t.strikes()
	if t != nil {
		t.inFlight.Add(1)
		defer t.inFlight.Add(-1)
	}
	if inject && !t.fault.after {
		t.fault.kind.inject(t)
	}
	if inject && !t.fault.after && t.fault.kind.breaks {
		panic(http.ErrAbortHandler) // the request is lost
	}
	answer := httptest.NewRecorder()
	u.handler.ServeHTTP(answer, r)
	if inject && t.fault.after {
		t.fault.kind.inject(t)
	}
	switch {
	case inject && t.fault.kind.breaks:
		panic(http.ErrAbortHandler) // the answer is lost
	case inject && t.fault.kind.twice:
		w.Header().Set("Content-Type", "text/event-stream")
		event := fmt.Sprintf("event: message\ndata: %s\n\n", bytes.TrimSpace(answer.Body.Bytes()))
		_, _ = io.WriteString(w, event+event)
	default:
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}
}
