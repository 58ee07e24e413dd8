package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
)

// exchange is a call during which servers may ask its client, although the client's version of MCP (since 2026-07-28) has no requests of
// servers: the call's result asks the client, and the call goes on without its request until the client repeats the request with the
// answers.
type exchange struct {
	cancel context.CancelCauseFunc // ends the call
	news   chan struct{}           // gets a token with each question
	done   chan struct{}           // closed when the call has ended

	mu        sync.Mutex
	owner     exchangeOwner              // of the request that may be repeated
	questions map[string]*clientQuestion // not answered yet, by their keys in the result
	count     int                        // questions so far
	expires   *time.Timer                // ends the call if the client does not repeat its request
	attached  func()                     // ends the time without a request; nil: the call has a request, or has ended

	// Set before done is closed.
	call   *call
	result *sdk.CallToolResult
	passed verbatimResult
}

// exchangeOwner is what a repeated request must have in common with the first one.
type exchangeOwner struct {
	caller     string
	rights     steps.Rights
	session    *session
	tool, args string
}

// clientQuestion is a request of a server for the client.
type clientQuestion struct {
	Method string               `json:"method"`
	Params json.RawMessage      `json:"params"`
	answer chan json.RawMessage // buffer of one
}

type exchangeKey struct{}

// exchangePrefix begins the requestState of a result in which a server asks the client.
const exchangePrefix = "ocx_"

// maxExchangeWait bounds how long a call waits for the client to repeat its request.
const maxExchangeWait = 10 * time.Minute

// exchanges are the calls that wait for their clients, by requestState. The zero value is empty.
type exchanges struct {
	mu      sync.Mutex
	byState map[string]*exchange
}

// put stores a call and returns its state.
func (e *exchanges) put(x *exchange) (state string) {
	state = exchangePrefix + rand.Text()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byState == nil {
		e.byState = map[string]*exchange{}
	}
	e.byState[state] = x
	return state
}

// take removes and returns the call of a repeated request; nil: there is none, or it is another one's.
func (e *exchanges) take(state string, owner *exchangeOwner) *exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byState[state]
	if x == nil || owner != nil && x.owner != *owner {
		return nil
	}
	delete(e.byState, state)
	return x
}

// converse answers a call. If its client can be asked by results only, the servers' questions become results, and a repeated request
// continues its call.
func (c *call) converse(t *tool) *sdk.CallToolResult {
	if state := c.request.Params.RequestState; strings.HasPrefix(state, exchangePrefix) {
		x := c.toolset.server.exchanges.take(state, c.exchangeOwner())
		if x == nil {
			return c.refuse(fault.New(fault.TokenExpired, "no call waits for these inputResponses: it has ended, belongs to another request, or "+
				"another process has it. Send the call again without requestState if its work is not done"))
		}
		x.resume(c.request.Params.InputResponses)
		return c.attend(x)
	}
	if c.clientView == nil || protocol.HasSessions(raw.Version(c.request.Session, c.request)) ||
		capabilitiesFor(c.request.ClientCapabilities()) == (askable{}) {
		return t.answer(c)
	}
	return c.attend(c.beginExchange(t))
}

// exchangeOwner returns what the call has in common with its repeated requests. Clients may write the same arguments otherwise.
func (c *call) exchangeOwner() *exchangeOwner {
	args := c.args
	if canonical, err := rawjson.AppendCanonical(nil, rawjson.AppendCompact(nil, args)); err == nil {
		args = canonical
	}
	return &exchangeOwner{c.caller.ID, c.toolset.rights, c.session, c.request.Params.Name, string(args)}
}

// beginExchange starts the call.
func (c *call) beginExchange(t *tool) *exchange {
	x := &exchange{news: make(chan struct{}, 1), done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.ctx))
	x.cancel = cancel
	running := *c
	running.ctx = context.WithValue(context.WithValue(ctx, verbatimKey{}, &x.passed), exchangeKey{}, x)
	if c.spending != nil {
		spending := *c.spending
		running.spending = &spending
	}
	x.call = &running
	s := c.toolset.server
	s.pin(c.now) // the call may outlast the message that began it
	go func() {
		defer s.unpin(c.now)
		defer cancel(nil)
		defer x.attach() // nothing is in progress any more, even if the client never repeats its request
		defer close(x.done)
		defer func() {
			if v := recover(); v != nil {
				x.result = running.panicked(t.Name, v)
			}
		}()
		x.result = t.answer(&running)
	}()
	return x
}

// attend waits until the call has ended or asks the client, and returns the result.
func (c *call) attend(x *exchange) *sdk.CallToolResult {
	stop := context.AfterFunc(c.ctx, func() { x.cancel(context.Cause(c.ctx)) })
	for {
		select {
		case <-x.done:
			stop()
			if c.spending != nil {
				c.spending.passed, c.spending.warns = x.call.spending.passed, x.call.spending.warns
			}
			if h, ok := c.ctx.Value(verbatimKey{}).(*verbatimResult); ok {
				*h = x.passed
			}
			return x.result
		case <-x.news:
		}
		if !stop() { // the request has ended, and so does the call
			<-x.done
			return x.result
		}
		if result := c.ask(x); result != nil {
			return result
		}
		stop = context.AfterFunc(c.ctx, func() { x.cancel(context.Cause(c.ctx)) })
	}
}

// ask returns the result that asks the client; nil: nothing is to be asked any more.
func (c *call) ask(x *exchange) *sdk.CallToolResult {
	detached, end, refused := c.transportRequest.Detach(c.ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.done:
		clear(x.questions)
	default:
	}
	switch {
	case refused != nil:
		for _, q := range x.questions {
			close(q.answer)
		}
		clear(x.questions)
		return nil
	case len(x.questions) == 0:
		end()
		return nil
	}
	x.owner = *c.exchangeOwner()
	state := c.toolset.server.exchanges.put(x)
	stop := context.AfterFunc(detached, func() { x.cancel(context.Cause(detached)) })
	x.attached = func() { stop(); end() }
	x.expires = time.AfterFunc(maxExchangeWait, func() {
		if c.toolset.server.exchanges.take(state, nil) != nil {
			x.cancel(fault.New(fault.Timeout, "the client did not answer what it was asked within %v", maxExchangeWait))
			x.resume(nil)
		}
	})
	body := raw.With(raw.With(raw.With(nil, "resultType", marshal("input_required")), "inputRequests", marshal(maps.Clone(x.questions))),
		"requestState", marshal(state))
	setVerbatim(c.ctx, body, nil)
	return &sdk.CallToolResult{}
}

// attach ends the time without a request, if it goes on.
func (x *exchange) attach() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attached != nil {
		x.attached()
		x.attached = nil
	}
}

// resume ends the time without a request, and passes on the client's answers.
func (x *exchange) resume(answers sdk.InputResponseMap) {
	x.attach()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expires.Stop()
	for key, answer := range answers {
		if q := x.questions[key]; q != nil {
			delete(x.questions, key)
			q.answer <- marshal(answer)
		}
	}
	if len(x.questions) > 0 {
		x.tell()
	}
}

// tell reports that there are questions.
func (x *exchange) tell() {
	select {
	case x.news <- struct{}{}:
	default: // a token is there
	}
}

// AskByResult passes a server's request to the client of the call that ctx belongs to, as an input request of the call's result
// (MCP 2026-07-28). ctx ends the wait. The error is a *jsonrpc.Error for the server, or ErrCallEnded.
func AskByResult(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method +
			": this client can be asked only during its calls, and nothing says to which call this belongs"}
	}
	q := &clientQuestion{Method: method, Params: params, answer: make(chan json.RawMessage, 1)}
	x.mu.Lock()
	if x.count++; x.questions == nil {
		x.questions = map[string]*clientQuestion{}
	}
	key := "q" + strconv.Itoa(x.count)
	x.questions[key] = q
	x.tell()
	x.mu.Unlock()
	select {
	case answer, ok := <-q.answer:
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many calls wait for this client's answers: ask again later"}
		}
		return answer, nil
	case <-ctx.Done():
	case <-x.done:
	}
	x.mu.Lock()
	delete(x.questions, key)
	x.mu.Unlock()
	if ctx.Err() == nil {
		return nil, ErrCallEnded
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client did not answer"}
}

// ErrCallEnded is the error of AskByResult if the call has ended before its client had answered.
var ErrCallEnded = errors.New("the call has ended")

// askable is what servers may ask of a client, as far as the client's sessions with them depend on it.
type askable struct{ form, url, sampling, samplingTools, samplingContext, roots bool }

// capabilitiesFor returns what servers may ask of a client with these capabilities; nil: nothing.
//
//nolint:staticcheck // clients still have roots and sample
func capabilitiesFor(c *sdk.ClientCapabilities) (a askable) {
	if c == nil {
		return a
	}
	if e := c.Elicitation; e != nil { // a client that names neither forms nor URLs supports forms
		a.form, a.url = e.Form != nil || e.URL == nil, e.URL != nil
	}
	if s := c.Sampling; s != nil {
		a.sampling, a.samplingTools, a.samplingContext = true, s.Tools != nil, s.Context != nil
	}
	a.roots = c.RootsV2 != nil
	return a
}

// capabilities returns the capabilities of clients of which servers may ask this; nil: none.
//
//nolint:staticcheck // servers still ask for roots and sample
func (a askable) capabilities() *sdk.ClientCapabilities {
	if a == (askable{}) {
		return nil
	}
	c := &sdk.ClientCapabilities{}
	if a.form || a.url {
		c.Elicitation = &sdk.ElicitationCapabilities{}
		if a.form {
			c.Elicitation.Form = &sdk.FormElicitationCapabilities{}
		}
		if a.url {
			c.Elicitation.URL = &sdk.URLElicitationCapabilities{}
		}
	}
	if a.sampling {
		c.Sampling = &sdk.SamplingCapabilities{}
		if a.samplingTools {
			c.Sampling.Tools = &sdk.SamplingToolsCapabilities{}
		}
		if a.samplingContext {
			c.Sampling.Context = &sdk.SamplingContextCapabilities{}
		}
	}
	if a.roots {
		c.RootsV2 = &sdk.RootCapabilities{}
	}
	return c
}
