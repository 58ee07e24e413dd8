package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// Peer is the MCP client that a link is opened for.
type Peer struct {
	Capabilities *sdk.ClientCapabilities // they are declared to the server; nil: none
	Protocol     string                  // the MCP version of the client; "": the newest
	Info         *sdk.Implementation     // what the server is told of the client; nil: onecall itself
	Shared       bool                    // several clients stand behind it: what names no call goes to none of them

	// Ask has the client answer a request of the server: sampling/createMessage, elicitation/create, roots/list. ctx is
	// that of the call in flight that the server asks in, else one of the link's own; it ends when the server has no use
	// for an answer any more. An error that is a *jsonrpc.Error reaches the server as it is. nil: the client cannot be asked.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify tells the client what the server tells; ctx as for Ask. It is called in the order in which the server tells,
	// for each call and for what concerns none. A client that is slow misses what comes too fast. nil: it is told nothing.
	Notify func(ctx context.Context, method string, params json.RawMessage)
}

// Link is a session with the server that belongs to one client: nothing of it reaches another. Where the server speaks
// over stdio it is a process of its own. A session that is lost, or has made room for another client's, is made anew at the
// next use, with the client's log level and subscriptions. It may be used by many goroutines.
type Link struct {
	source  *Source
	peer    Peer
	ctx     context.Context // ends with the link
	cancel  context.CancelFunc
	running sync.WaitGroup
	outside chan note // what the server tells outside of calls

	mu         sync.Mutex
	session    *session
	opening    chan struct{} // closed when the session that is being made is there, or is not; nil: none is made
	failure    *fault.Error  // of the last try
	failed     time.Time     // when that was
	level      json.RawMessage
	subscribed map[string]json.RawMessage // the params of subscriptions, by URI
	listens    bool                       // see Listen
	sessions   int                        // that there have been
	lost       int                        // in a row, each soon after it was there
	closed     bool
}

// Link opens a session with the server for a client. A client of MCP 2025-11-25 or older gets one with the initialize
// handshake, in which the server can ask and tell; for a newer one the newest version is taken that the server has. The
// caller closes it. Errors: limit_exceeded where MaxLinks sessions are in use, unavailable, denied, and others as for the
// start of a source; the codes of the context's end.
func (s *Source) Link(ctx context.Context, peer *Peer) (*Link, error) {
	l := &Link{source: s, subscribed: map[string]json.RawMessage{}, outside: make(chan note, maxNotes)}
	if peer != nil {
		l.peer = *peer
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	var f *fault.Error
	switch {
	case s.closed:
		f = s.unavailable("the source is closed")
	default:
		s.links[l] = true
	}
	s.mu.Unlock()
	if f != nil {
		l.cancel()
		return nil, f
	}
	l.running.Go(l.tell)
	n, f := l.acquire(ctx)
	if f != nil {
		_ = l.Close()
		return nil, f
	}
	l.release(n)
	return l, nil
}

// Name is that of the source.
func (s *Source) Name() string { return s.options.Name }

// Capabilities is what the server offers beside tools, as its last session said; nil while that is not known.
func (s *Source) Capabilities() *sdk.ServerCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// Close ends the session, and waits for what belongs to it as Source.Close does. It may be called more than once.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.running.Wait()
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	delete(l.source.links, l)
	return nil
}

type linkKey struct{ source *Source }

// linkedCall is what a context carries of calls in a link.
type linkedCall struct {
	link   func(ctx context.Context) (*Link, error)
	params json.RawMessage
}

// Call gives a context with which the functions of the link's source are called in this session. params are those of the
// client's own tools/call: what they hold beside name and arguments (_meta, inputResponses, requestState) is handed on to
// the server. nil: there is none. A JSON-RPC error that the server answers is the Err of the fault that comes back
// (*jsonrpc.Error).
func (l *Link) Call(ctx context.Context, params json.RawMessage) context.Context {
	return l.source.Within(ctx, params, func(context.Context) (*Link, error) { return l, nil })
}

// Within is Link.Call for a link that each call asks for when it is made. What is answered in it is the client's alone: no
// call cache keeps it.
func (s *Source) Within(ctx context.Context, params json.RawMessage, link func(ctx context.Context) (*Link, error)) context.Context {
	return context.WithValue(steps.Private(ctx, s.options.Name), linkKey{s}, &linkedCall{link, params})
}

// acquire gives the link's session, which the caller releases. One that is lost is made anew.
func (l *Link) acquire(ctx context.Context) (*session, *fault.Error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, l.source.unavailable("its session with this client has ended")
		case l.session != nil && l.session.ctx.Err() == nil:
			n := l.session
			n.calls++
			l.mu.Unlock()
			return n, nil
		case l.opening != nil:
		case l.failure != nil && time.Since(l.failed) < hurryAfter:
			f := *l.failure
			l.mu.Unlock()
			f.Outcome = fault.NotSent
			return nil, &f
		default:
			l.opening = make(chan struct{})
			l.running.Go(l.open)
		}
		opening := l.opening
		l.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, stopped(ctx, l.source.options.Name+" has not been ready", fault.NotSent)
		}
	}
}

// release gives a session back. One whose server could not be reached ends when nobody uses it.
func (l *Link) release(n *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.calls--
	n.used = time.Now()
	if n.calls == 0 && n.doubted.Load() {
		n.cancel()
	}
}

// open makes a session, and ends it when it is lost or the link is closed.
func (l *Link) open() {
	place := &room{l}
	defer l.source.leave(place)
	var n *session
	f := l.source.makeRoom(place)
	if f == nil {
		n, f = l.connect()
	}
	l.mu.Lock()
	if l.session, l.failure = n, f; f != nil {
		l.failed = time.Now()
	} else {
		l.sessions++
	}
	again := l.sessions > 1
	close(l.opening)
	l.opening = nil
	l.mu.Unlock()
	if n == nil {
		return
	}
	if again {
		l.tellChanged(n)
	}
	begun := time.Now()
	select {
	case <-n.ctx.Done():
	case <-l.ctx.Done():
	}
	n.close()
	l.source.leave(place)
	l.comeBack(time.Since(begun) >= healthyAfter)
}

// Listen has a session that is lost made anew by itself, with back-off, for the sake of what the server tells in it. A
// session with subscriptions is so in any case.
func (l *Link) Listen(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listens = on
}

// follows reports whether the client waits for what the server tells.
func (l *Link) follows() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && (l.listens || len(l.subscribed) > 0)
}

// comeBack makes a new session in the place of one that is lost, where the client waits for what the server tells in it.
func (l *Link) comeBack(healthy bool) {
	l.mu.Lock()
	if l.lost++; healthy {
		l.lost = 1
	}
	failures := l.lost
	l.mu.Unlock()
	for ; l.follows(); failures++ {
		timer := time.NewTimer(backoff(failures))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			return
		}
		if n, f := l.acquire(l.ctx); f == nil {
			l.release(n)
			return
		}
	}
}

// tellChanged tells the client that the server's lists may be others in a new session.
func (l *Link) tellChanged(n *session) {
	c := n.client.InitializeResult().Capabilities
	if c == nil || l.peer.Notify == nil {
		return
	}
	tell := func(method string) {
		select {
		case l.outside <- note{method: method, data: []byte("{}")}:
		default: // the client is too slow to follow
		}
	}
	if c.Tools != nil {
		tell("notifications/tools/list_changed")
	}
	if c.Resources != nil {
		tell("notifications/resources/list_changed")
	}
	if c.Prompts != nil {
		tell("notifications/prompts/list_changed")
	}
}

// connect greets the server, and puts the session into the state that the client has asked for.
func (l *Link) connect() (*session, *fault.Error) {
	s := l.source
	ctx, cancel := context.WithTimeout(l.ctx, s.options.StartTimeout)
	defer cancel()
	n, f, silent := s.connect(ctx, l.protocol(), l)
	if f != nil && silent && !l.sessional() && ctx.Err() == nil {
		n, f, _ = s.connect(ctx, protocol.Stateful, l) // it may know the older greeting only
	}
	if f != nil {
		return nil, f
	}
	l.mu.Lock()
	level, subscribed := l.level, make([]json.RawMessage, 0, len(l.subscribed))
	for _, params := range l.subscribed {
		subscribed = append(subscribed, params)
	}
	l.mu.Unlock()
	if level != nil {
		_, _ = n.request(ctx, methodSetLevel, level) // what it refuses now it would have refused then
	}
	for _, params := range subscribed {
		_, _ = n.subscription(ctx, methodSubscribe, params)
	}
	return n, nil
}

// sessional reports whether the client has sessions, and the server can so ask and tell in one.
func (l *Link) sessional() bool { return l.peer.Protocol != "" && l.peer.Protocol <= protocol.Stateful }

// protocol is the version of MCP to greet the server in; "": the newest.
func (l *Link) protocol() string {
	s := l.source
	if l.sessional() {
		if p := s.options.Protocol; p != "" && p < protocol.Stateful {
			return p
		}
		return protocol.Stateful
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil { // it has found out what the server speaks
		return s.session.protocol
	}
	return s.options.Protocol
}

// introduce says in whose name the server is greeted.
func (l *Link) introduce(who **sdk.Implementation, o *sdk.ClientOptions) {
	o.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	if c := l.capabilities(); c != nil {
		o.Capabilities = c
	}
	if l.peer.Info != nil {
		*who = l.peer.Info
	}
	// A server of 2026-07-28 is asked to tell of these; what it tells is taken before the SDK sees it.
	o.PromptListChangedHandler = func(context.Context, *sdk.PromptListChangedRequest) {}
	o.ResourceListChangedHandler = func(context.Context, *sdk.ResourceListChangedRequest) {}
}

// appsExtension is MCP Apps: it needs tools, their _meta and resources, all of which pass through a link.
const appsExtension = "io.modelcontextprotocol/ui"

// capabilities are those of the client that the server is told of; nil: none. Of extensions only MCP Apps is passed on.
//
//nolint:staticcheck // clients still have roots
func (l *Link) capabilities() *sdk.ClientCapabilities {
	if l.peer.Capabilities == nil {
		return nil
	}
	c := *l.peer.Capabilities
	c.Extensions, c.Experimental = nil, nil
	if apps, ok := l.peer.Capabilities.Extensions[appsExtension]; ok {
		c.Extensions = map[string]any{appsExtension: apps}
	}
	if !l.source.options.Roots {
		c.RootsV2, c.Roots.ListChanged = nil, false
	}
	return &c
}

// proxied are the capabilities of a client that can do all that a server may ask.
//
//nolint:staticcheck // servers still ask for roots and sample
func proxied(roots bool) *sdk.ClientCapabilities {
	c := &sdk.ClientCapabilities{
		Sampling:    &sdk.SamplingCapabilities{},
		Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}},
	}
	if roots {
		c.RootsV2 = &sdk.RootCapabilities{ListChanged: true}
	}
	return c
}

// tell passes on what the server tells outside of calls, until the link is closed.
func (l *Link) tell() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case n := <-l.outside:
			l.peer.Notify(l.ctx, n.method, n.data)
		}
	}
}

// remember keeps what a new session has to be told again.
func (l *Link) remember(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uri := gjson.GetBytes(params, "uri").String()
	switch method {
	case methodSetLevel:
		l.level = params
	case methodSubscribe:
		l.subscribed[uri] = params
	case methodUnsubscribe:
		delete(l.subscribed, uri)
	}
}
