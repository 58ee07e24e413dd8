package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/onecall-mcp/onecall/fault"
)

// asks are the requests that the server of a session makes. Those for the client of a link are answered by it, all others
// here: the SDK would keep any number of answers for a server that does not read them.
type asks struct {
	session *session

	mu       sync.Mutex
	open     map[string]*ask // that the client is asked, by the id that the server gave them, until the answer is on its way
	waiting  []reply
	replying bool // a goroutine sends what is waiting
	ending   bool
	busy     sync.WaitGroup
}

// ask is a request that the client has not answered yet.
type ask struct {
	cancel  context.CancelFunc
	guessed bool // nothing says which call it belongs to
}

// reply is an answer that is not on its way yet.
type reply struct {
	key      string // of the ask; "": the client was not asked
	response *jsonrpc.Response
}

// Bounds of what a server may ask: requests at a time that the client is asked, how long one may wait for its answer,
// answers that the server has not taken, and how long one is offered to it.
const (
	maxAsks    = 16
	askTime    = 15 * time.Minute
	maxReplies = 256
	replyTime  = 30 * time.Second
)

const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// take takes a request of the server; false: its id is none, which is for the SDK to say.
func (k *asks) take(m *message, owner *exchange) bool {
	id, err := idOf(m)
	if err != nil {
		return false
	}
	method, key := m.method.Str, m.id.Raw
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ending || k.open[key] != nil { // an id that is in use: there is nobody to answer
		return true
	}
	refused := k.refuses(method)
	if refused == nil && method != "ping" && len(k.open) >= maxAsks {
		refused = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests wait for this client's answer: ask again when one is answered"}
	}
	switch {
	case refused != nil:
		k.reply("", &jsonrpc.Response{ID: id, Error: refused})
	case method == "ping":
		k.reply("", &jsonrpc.Response{ID: id, Result: json.RawMessage("{}")})
	default:
		k.ask(id, key, method, json.RawMessage(m.params.Raw), owner)
	}
	return true
}

// idOf is the id of the server's request.
func idOf(m *message) (jsonrpc.ID, error) {
	var value any
	if err := json.Unmarshal([]byte(m.id.Raw), &value); err != nil {
		return jsonrpc.ID{}, err
	}
	return jsonrpc.MakeID(value)
}

// refuses says why the client is not asked.
func (k *asks) refuses(method string) *jsonrpc.Error {
	refused := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}
	switch method {
	case "ping":
		return nil
	case methodSample, methodElicit, methodRoots:
	default:
		refused.Message = fault.Clip(method, maxQuoted) + ": this client does not know this method"
		return refused
	}
	if k.session.tap.link == nil {
		refused.Message = method + ": no client can be asked here"
		return refused
	}
	link := k.session.tap.link.link
	c, declared := link.capabilities(), false
	switch {
	case link.peer.Ask == nil:
		refused.Message = method + ": the client has no session, and cannot be asked: it has to be asked in the result of a call " +
			"(MCP 2026-07-28), or to connect with MCP 2025-11-25"
		return refused
	case c == nil:
	case method == methodSample:
		declared = c.Sampling != nil //nolint:staticcheck // servers still sample
	case method == methodElicit:
		declared = c.Elicitation != nil
	default:
		declared = c.RootsV2 != nil //nolint:staticcheck // servers still ask for roots
	}
	if declared {
		return nil
	}
	refused.Message = method + ": the client has not declared that it can do this"
	return refused
}

// ask has the client answer a request. The caller holds k.mu.
func (k *asks) ask(id jsonrpc.ID, key, method string, params json.RawMessage, owner *exchange) {
	link := k.session.tap.link
	within, guessed := link.place(method, owner)
	ctx, cancel := context.WithTimeout(within, askTime)
	stop := context.AfterFunc(k.session.ctx, cancel)
	k.open[key] = &ask{cancel, guessed}
	k.busy.Go(func() {
		result, err := link.link.peer.Ask(ctx, method, params)
		stop()
		cancel()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reply(key, responseOf(id, result, err))
	})
}

// responseOf is what the server gets for what the client has answered.
func responseOf(id jsonrpc.ID, result json.RawMessage, err error) *jsonrpc.Response {
	var wire *jsonrpc.Error
	switch {
	case err == nil && json.Valid(result):
		return &jsonrpc.Response{ID: id, Result: result}
	case err == nil:
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client answered what is not JSON"}
	case errors.As(err, &wire):
	default:
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client could not be asked"}
		if f, ok := fault.As(err); ok && f != nil {
			wire.Message = f.Message
		}
	}
	return &jsonrpc.Response{ID: id, Error: wire}
}

// reply queues an answer. A server that asks on and on, and takes no answers, loses its session. The caller holds k.mu.
func (k *asks) reply(key string, r *jsonrpc.Response) {
	if k.ending {
		return
	}
	if len(k.waiting) >= maxReplies {
		k.ending = true
		k.session.tap.giveUp(fault.New(fault.Unavailable, "it asks its client without end, and takes no answers (%d wait): look at what it does", len(k.waiting)))
		k.session.cancel()
		return
	}
	k.waiting = append(k.waiting, reply{key, r})
	if !k.replying {
		k.replying = true
		k.busy.Go(k.send)
	}
}

// send sends the answers that wait, one after another. Where the server is gone there is nobody to tell.
func (k *asks) send() {
	for {
		k.mu.Lock()
		if len(k.waiting) == 0 || k.ending {
			k.replying = false
			k.mu.Unlock()
			return
		}
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(k.session.ctx, replyTime)
		_ = k.session.write(ctx, next.response)
		cancel()
		if next.key != "" {
			k.mu.Lock()
			delete(k.open, next.key)
			k.mu.Unlock()
		}
	}
}

// cancelled ends a request that the server has no use for any more; false: it was none of those that the client is asked.
func (k *asks) cancelled(m *message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.open[m.params.Get("requestId").Raw]
	if one != nil {
		one.cancel()
	}
	return one != nil
}

// idle ends the requests that no call can have made any more, where no call is in flight.
func (k *asks) idle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.session.tap
	t.mu.Lock()
	inFlight := t.latest() != nil
	t.mu.Unlock()
	for _, one := range k.open {
		if one.guessed && !inFlight {
			one.cancel()
		}
	}
}

// end waits until nobody is asked any more. The session is closed.
func (k *asks) end() {
	k.mu.Lock()
	k.ending = true
	for _, one := range k.open {
		one.cancel()
	}
	k.mu.Unlock()
	k.busy.Wait()
}
