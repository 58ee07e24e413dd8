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

// serverRequests are the requests that the server sends on a connection. The client answers those that are for it; all others are
// answered here, because the SDK would queue any number of answers for a server that does not read them.
type serverRequests struct {
	conn *connection

	mu       sync.Mutex
	open     map[string]*serverRequest // waiting for the client's answer, by the server's id, until the answer is sent
	waiting  []reply
	replying bool           // a goroutine sends the waiting replies
	closing  bool           // new requests and replies are dropped
	busy     sync.WaitGroup // the goroutines that ask the client or send replies
}

// serverRequest is a request that the client has not answered yet.
type serverRequest struct {
	cancel  context.CancelFunc
	guessed bool // the server did not say which call it belongs to
}

// reply is an answer that is not sent yet.
type reply struct {
	key      string // the id of the request in open; "": the client was not asked
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

// handle answers a request of the server or passes it to the client. It returns false if the request's id is malformed, which the
// SDK reports.
func (r *serverRequests) handle(m *message, request *pendingRequest) bool {
	id, err := idOf(m)
	if err != nil {
		return false
	}
	method, key := m.method.Str, m.id.Raw
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing || r.open[key] != nil { // the id is in use: no answer could be matched
		return true
	}
	refused := r.refusal(method)
	if refused == nil && method != "ping" && len(r.open) >= maxAsks {
		refused = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests wait for this client's answer: " +
			"ask again when one is answered"}
	}
	switch {
	case refused != nil:
		r.reply("", &jsonrpc.Response{ID: id, Error: refused})
	case method == "ping":
		r.reply("", &jsonrpc.Response{ID: id, Result: json.RawMessage("{}")})
	default:
		r.ask(id, key, method, json.RawMessage(m.params.Raw), request)
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

// refusal returns the error for a request that the client is not asked; nil: it can be asked, or the request is a ping.
func (r *serverRequests) refusal(method string) *jsonrpc.Error {
	refused := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}
	switch method {
	case "ping":
		return nil
	case methodSample, methodElicit, methodRoots:
	default:
		refused.Message = fault.Clip(method, maxQuoted) + ": this client does not know this method"
		return refused
	}
	if r.conn.tap.downstream == nil {
		refused.Message = method + ": no client can be asked here"
		return refused
	}
	session := r.conn.tap.downstream.session
	c, declared := session.capabilities(), false
	switch {
	case session.downstream.Ask == nil:
		refused.Message = method + ": the client cannot be asked"
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

// ask passes a request to the client. The caller holds r.mu.
func (r *serverRequests) ask(id jsonrpc.ID, key, method string, params json.RawMessage, request *pendingRequest) {
	d := r.conn.tap.downstream
	within, guessed := d.askContext(method, request)
	ctx, cancel := context.WithTimeout(within, maxAskTime)
	stop := context.AfterFunc(r.conn.ctx, cancel)
	r.open[key] = &serverRequest{cancel, guessed != nil}
	r.busy.Go(func() {
		result, err := d.session.downstream.Ask(ctx, method, params)
		// The guess was wrong if the call ended without the answer: the server means another one.
		for guessed != nil && errors.Is(err, ErrCallEnded) && ctx.Err() == nil {
			within, another := d.askContext(method, nil)
			if another == nil || another == guessed {
				break
			}
			guessed = another
			result, err = d.session.downstream.Ask(&valuesOf{ctx, within}, method, params)
		}
		stop()
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reply(key, responseOf(id, result, err))
	})
}

// ErrCallEnded is the error of DownstreamClient.Ask if the call that its context belongs to has ended before the client had answered.
var ErrCallEnded = errors.New("the call has ended")

// valuesOf is a context that ends with one and has the values of another.
type valuesOf struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (v *valuesOf) Value(key any) any { return v.values.Value(key) }

// responseOf returns the response to the server for the client's answer.
func responseOf(id jsonrpc.ID, result json.RawMessage, err error) *jsonrpc.Response {
	var rpcErr *jsonrpc.Error
	switch {
	case err == nil && json.Valid(result):
		return &jsonrpc.Response{ID: id, Result: result}
	case err == nil:
		rpcErr = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client's answer is not JSON"}
	case errors.As(err, &rpcErr):
	case errors.Is(err, ErrCallEnded):
		rpcErr = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client did not answer"}
	default:
		rpcErr = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client could not be asked"}
		if f, ok := fault.As(err); ok && f != nil {
			rpcErr.Message = f.Message
		}
	}
	return &jsonrpc.Response{ID: id, Error: rpcErr}
}

// reply queues a response. If a server keeps asking without reading the responses, its connection is closed. The caller holds r.mu.
func (r *serverRequests) reply(key string, response *jsonrpc.Response) {
	if r.closing {
		return
	}
	if len(r.waiting) >= maxReplies {
		r.closing = true
		r.conn.tap.giveUp(fault.New(fault.Unavailable, "it sends requests to its client and does not read the answers (%d wait): "+
			"look at what it does", len(r.waiting)))
		r.conn.cancel()
		return
	}
	r.waiting = append(r.waiting, reply{key, response})
	if !r.replying {
		r.replying = true
		r.busy.Go(r.send)
	}
}

// send sends the queued responses one by one. Errors mean that the server is gone.
func (r *serverRequests) send() {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 || r.closing {
			r.replying = false
			r.mu.Unlock()
			return
		}
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.conn.ctx, maxReplyTime)
		_ = r.conn.write(ctx, next.response)
		cancel()
		if next.key != "" {
			r.mu.Lock()
			delete(r.open, next.key)
			r.mu.Unlock()
		}
	}
}

// cancel ends a request that the server canceled; false: the request does not wait for the client.
func (r *serverRequests) cancel(m *message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := r.open[m.params.Get("requestId").Raw]
	if request != nil {
		request.cancel()
	}
	return request != nil
}

// cancelGuessed ends the requests whose call was guessed, but only if no call is pending any more.
func (r *serverRequests) cancelGuessed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.conn.tap
	t.mu.Lock()
	inFlight := t.latest() != nil
	t.mu.Unlock()
	for _, request := range r.open {
		if request.guessed && !inFlight {
			request.cancel()
		}
	}
}

// close cancels all requests and waits for them. It is called after the connection was closed.
func (r *serverRequests) close() {
	r.mu.Lock()
	r.closing = true
	for _, request := range r.open {
		request.cancel()
	}
	r.mu.Unlock()
	r.busy.Wait()
}
