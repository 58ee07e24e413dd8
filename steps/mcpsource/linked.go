package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/onecall-mcp/onecall/fault"
)

// linked is what a session's tap needs to hand on what the server asks and tells to the client of a link.
type linked struct {
	link    *Link
	session *session
	streams bool // what belongs to a call comes in the stream of its answer

	mu     sync.Mutex
	asks   map[string]context.CancelFunc // in flight, by the id that the server gave them
	ending bool
	busy   sync.WaitGroup
}

// Bounds of what a server may ask: requests at a time, and how long one may wait for its answer.
const (
	maxAsks  = 16
	askTime  = 15 * time.Minute
	replying = 30 * time.Second
)

// notified takes a notification for the client, and tells whether it was one.
func (k *linked) notified(m *message, owner *exchange) bool {
	method := m.method.Str
	inCall := false // outside of calls where nothing says that it belongs to one
	switch method {
	case "notifications/message", "notifications/elicitation/complete":
		inCall = true
	case "notifications/resources/updated", "notifications/resources/list_changed", "notifications/prompts/list_changed":
	case "notifications/tools/list_changed":
		signal(k.session.source.relist)
	case "notifications/cancelled":
		return k.cancelled(m)
	default:
		return false
	}
	if k.link.peer.Notify == nil {
		return true
	}
	n := note{method: method, data: []byte(m.params.Raw)}
	t := k.session.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	x := owner
	if x == nil && inCall && !k.streams {
		x = t.latest()
	}
	if x != nil && x.hear(n) {
		return true
	}
	select {
	case k.link.outside <- n:
	default: // the client is too slow to follow
	}
	return true
}

// cancelled ends a request of the server that it has no use for any more; false: it was none of those in flight.
func (k *linked) cancelled(m *message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	cancel, found := k.asks[m.params.Get("requestId").Raw]
	if found {
		cancel()
	}
	return found
}

// asked takes a request for the client, and tells whether it was one. It is answered on a goroutine of its own.
func (k *linked) asked(m *message, owner *exchange) bool {
	method, params, id := m.method.Str, json.RawMessage(m.params.Raw), m.id.Raw
	switch method {
	case "sampling/createMessage", "elicitation/create", "roots/list":
	default:
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ending || k.asks[id] != nil {
		return true // an id that is in use: there is nobody to answer
	}
	refused := k.refuses(method)
	if refused == nil && len(k.asks) >= maxAsks {
		refused = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests wait for this client's answer: ask again when one is answered"}
	}
	if refused != nil {
		k.busy.Go(func() { k.answer(m, nil, refused) })
		return true
	}
	ctx, cancel := context.WithTimeout(k.place(owner), askTime)
	stop := context.AfterFunc(k.session.ctx, cancel)
	k.asks[id] = cancel
	k.busy.Go(func() {
		result, err := k.link.peer.Ask(ctx, method, params)
		stop()
		cancel()
		k.mu.Lock()
		delete(k.asks, id)
		k.mu.Unlock()
		k.answer(m, result, err)
	})
	return true
}

// refuses says why the client is not asked.
func (k *linked) refuses(method string) *jsonrpc.Error {
	c, declared := k.link.peer.Capabilities, false
	switch {
	case k.link.peer.Ask == nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": the client has no session, and cannot be asked: " +
			"it has to be asked in the result of a call (MCP 2026-07-28), or to connect with MCP 2025-11-25"}
	case c == nil:
	case method == "sampling/createMessage":
		declared = c.Sampling != nil //nolint:staticcheck // servers still sample
	case method == "elicitation/create":
		declared = c.Elicitation != nil
	default:
		declared = c.RootsV2 != nil //nolint:staticcheck // servers still ask for roots
	}
	if !declared {
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": the client has not declared that it can do this"}
	}
	return nil
}

// place is the context of the call in flight that the server asks in, else the link's.
func (k *linked) place(owner *exchange) context.Context {
	t := k.session.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	x := owner
	if x == nil && !k.streams {
		x = t.latest()
	}
	if x == nil || x.ctx == nil {
		return k.link.ctx
	}
	return x.ctx
}

// answer answers the server's request. Where the server is gone there is nobody to tell.
func (k *linked) answer(m *message, result json.RawMessage, err error) {
	id, bad := idOf(m)
	if bad != nil {
		return
	}
	response := &jsonrpc.Response{ID: id, Result: result}
	var wire *jsonrpc.Error
	switch {
	case err == nil && json.Valid(result):
	case err == nil:
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client answered what is not JSON"}
	case errors.As(err, &wire):
	default:
		message := "the client could not be asked"
		if f, ok := fault.As(err); ok && f != nil {
			message = f.Message
		}
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
	}
	if wire != nil {
		response.Result, response.Error = nil, wire
	}
	ctx, cancel := context.WithTimeout(k.session.ctx, replying)
	defer cancel()
	_ = k.session.write(ctx, response)
}

// idOf is the id of the server's request.
func idOf(m *message) (jsonrpc.ID, error) {
	var value any
	if err := json.Unmarshal([]byte(m.id.Raw), &value); err != nil {
		return jsonrpc.ID{}, err
	}
	return jsonrpc.MakeID(value)
}

// end waits until nobody is asked any more. The session is closed.
func (k *linked) end() {
	k.mu.Lock()
	k.ending = true
	for _, cancel := range k.asks {
		cancel()
	}
	k.mu.Unlock()
	k.busy.Wait()
}
