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

// serverRequests are the requests that the server sends on a connection. Those for a client are answered by it, all others here:
// the SDK would queue any number of answers for a server that does not read them.
type serverRequests struct {
	conn *connection

	mu       sync.Mutex
	open     map[string]*serverRequest // waiting for the client's answer, by the server's id, until the answer is sent
	waiting  []reply
	replying bool // a goroutine sends the waiting replies
	closing  bool
	busy     sync.WaitGroup
}

// serverRequest is a request that the client has not answered yet.
type serverRequest struct {
	cancel  context.CancelFunc
	guessed bool // the call that it belongs to is not known
}

// reply is an answer that is not sent yet.
type reply struct {
	key      string // the request's id; "": the client was not asked
	response *jsonrpc.Response
}

// Limits of server requests: how many may wait for the client at a time, how long each may wait, how many answers may be queued,
// and how long sending one may take.
const (
	maxAsks      = 16
	maxAskTime   = 15 * time.Minute
	maxReplies   = 256
	maxReplyTime = 30 * time.Second
)

const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// handle handles a request of the server; false: its id is malformed, which the SDK reports.
func (k *serverRequests) handle(m *message, owner *pendingRequest) bool {
	id, err := idOf(m)
	if err != nil {
		return false
	}
	method, key := m.method.Str, m.id.Raw
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing || k.open[key] != nil { // the id is in use: no answer could be matched
		return true
	}
	refused := k.refusal(method)
	if refused == nil && method != "ping" && len(k.open) >= maxAsks {
		refused = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests wait for this client's answer: " +
			"ask again when one is answered"}
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

// idOf returns the id of a server request.
func idOf(m *message) (jsonrpc.ID, error) {
	var value any
	if err := json.Unmarshal([]byte(m.id.Raw), &value); err != nil {
		return jsonrpc.ID{}, err
	}
	return jsonrpc.MakeID(value)
}

// refusal returns why the client is not asked; nil: it is.
func (k *serverRequests) refusal(method string) *jsonrpc.Error {
	refused := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}
	switch method {
	case "ping":
		return nil
	case methodSample, methodElicit, methodRoots:
	default:
		refused.Message = fault.Clip(method, maxQuoted) + ": this client does not know this method"
		return refused
	}
	if k.conn.tap.downstream == nil {
		refused.Message = method + ": no client can be asked here"
		return refused
	}
	client := k.conn.tap.downstream.upstream
	c, declared := client.capabilities(), false
	switch {
	case client.downstream.Ask == nil:
		refused.Message = method + ": the client has no session, and cannot be asked: ask it in the result of a call " +
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

// ask passes a request to the client. The caller holds k.mu.
func (k *serverRequests) ask(id jsonrpc.ID, key, method string, params json.RawMessage, owner *pendingRequest) {
	client := k.conn.tap.downstream
	within, guessed := client.askContext(method, owner)
	ctx, cancel := context.WithTimeout(within, maxAskTime)
	stop := context.AfterFunc(k.conn.ctx, cancel)
	k.open[key] = &serverRequest{cancel, guessed}
	k.busy.Go(func() {
		result, err := client.upstream.downstream.Ask(ctx, method, params)
		stop()
		cancel()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reply(key, responseOf(id, result, err))
	})
}

// responseOf returns the response to the server for the client's answer.
func responseOf(id jsonrpc.ID, result json.RawMessage, err error) *jsonrpc.Response {
	var rpcErr *jsonrpc.Error
	switch {
	case err == nil && json.Valid(result):
		return &jsonrpc.Response{ID: id, Result: result}
	case err == nil:
		rpcErr = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client answered what is not JSON"}
	case errors.As(err, &rpcErr):
	default:
		rpcErr = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client could not be asked"}
		if f, ok := fault.As(err); ok && f != nil {
			rpcErr.Message = f.Message
		}
	}
	return &jsonrpc.Response{ID: id, Error: rpcErr}
}

// reply queues a response. A server that keeps asking without reading responses loses its connection. The caller holds k.mu.
func (k *serverRequests) reply(key string, r *jsonrpc.Response) {
	if k.closing {
		return
	}
	if len(k.waiting) >= maxReplies {
		k.closing = true
		k.conn.tap.giveUp(fault.New(fault.Unavailable, "it asks its client without end, and takes no answers (%d wait): "+
			"look at what it does", len(k.waiting)))
		k.conn.cancel()
		return
	}
	k.waiting = append(k.waiting, reply{key, r})
	if !k.replying {
		k.replying = true
		k.busy.Go(k.send)
	}
}

// send sends the queued responses one by one. Errors mean that the server is gone.
func (k *serverRequests) send() {
	for {
		k.mu.Lock()
		if len(k.waiting) == 0 || k.closing {
			k.replying = false
			k.mu.Unlock()
			return
		}
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(k.conn.ctx, maxReplyTime)
		_ = k.conn.write(ctx, next.response)
		cancel()
		if next.key != "" {
			k.mu.Lock()
			delete(k.open, next.key)
			k.mu.Unlock()
		}
	}
}

// cancel ends a request that the server canceled; false: it does not wait for the client.
func (k *serverRequests) cancel(m *message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.open[m.params.Get("requestId").Raw]
	if one != nil {
		one.cancel()
	}
	return one != nil
}

// cancelGuessed ends requests whose call was guessed, once no call is pending.
func (k *serverRequests) cancelGuessed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.conn.tap
	t.mu.Lock()
	inFlight := t.latest() != nil
	t.mu.Unlock()
	for _, one := range k.open {
		if one.guessed && !inFlight {
			one.cancel()
		}
	}
}

// close cancels all requests and waits for them. The connection is closed.
func (k *serverRequests) close() {
	k.mu.Lock()
	k.closing = true
	for _, one := range k.open {
		one.cancel()
	}
	k.mu.Unlock()
	k.busy.Wait()
}
