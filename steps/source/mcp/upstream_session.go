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

// DownstreamClient is the MCP client that a session with the server is opened for.
type DownstreamClient struct {
	Capabilities *sdk.ClientCapabilities // declared to the server; nil: none
	Protocol     string                  // the client's MCP version; "": the newest
	Info         *sdk.Implementation     // how the client introduces itself; nil: as onecall
	Shared       bool                    // several clients share it: a message that names no call goes to none of them

	// Ask passes a request of the server to the client: sampling/createMessage, elicitation/create or roots/list. ctx is that of
	// the call during which the server asks, else the session's; it ends when the server no longer needs an answer. A
	// *jsonrpc.Error is passed to the server unchanged. nil: the client cannot be asked.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify passes a notification of the server to the client; ctx as for Ask. Calls keep the server's order, separately for
	// each call and for notifications outside of calls. A slow client misses notifications. nil: they are dropped.
	Notify func(ctx context.Context, method string, params json.RawMessage)
}

// UpstreamSession is a client's own session with the server, isolated from all others. Over stdio it has its own process. A
// session that was lost or evicted is opened again at its next use, with the client's log level and subscriptions. It is safe for
// concurrent use.
type UpstreamSession struct {
	source        *Source
	downstream    DownstreamClient
	ctx           context.Context // ends with the session
	cancel        context.CancelFunc
	background    sync.WaitGroup
	notifications chan notification // notifications outside of calls

	mu         sync.Mutex
	conn       *connection
	connecting chan struct{} // closed when the connection attempt ends; nil: none is running
	failure    *fault.Error  // of the last attempt
	failedAt   time.Time     // when the last attempt failed
	level      json.RawMessage
	subscribed map[string]json.RawMessage // params of the subscriptions, by URI
	reconnects bool                       // see SetReconnect
	connects   int                        // connections so far
	losses     int                        // short-lived connections in a row
	closed     bool
}

// OpenSession opens a client's own session with the server. Clients of MCP 2025-11-25 or older get one with the initialize
// handshake, in which the server can send requests and notifications; newer clients get the server's newest version. The caller
// closes it. Errors: limit_exceeded if MaxSessions sessions are in use, unavailable, denied, and others as for the start of a
// source; the codes of the context's end.
func (s *Source) OpenSession(ctx context.Context, client *DownstreamClient) (*UpstreamSession, error) {
	l := &UpstreamSession{source: s, subscribed: map[string]json.RawMessage{}, notifications: make(chan notification, maxNotifications)}
	if client != nil {
		l.downstream = *client
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	var f *fault.Error
	switch {
	case s.closed:
		f = s.unavailable("the source is closed")
	default:
		s.clientSessions[l] = true
	}
	s.mu.Unlock()
	if f != nil {
		l.cancel()
		return nil, f
	}
	l.background.Go(l.deliverNotifications)
	n, f := l.acquire(ctx)
	if f != nil {
		_ = l.Close()
		return nil, f
	}
	l.release(n)
	return l, nil
}

// Name returns the source's name.
func (s *Source) Name() string { return s.options.Name }

// Capabilities returns the capabilities that the server declared last; nil: not known.
func (s *Source) Capabilities() *sdk.ServerCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

// Close ends the session and waits for its resources as Source.Close does. It may be called more than once.
func (l *UpstreamSession) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.background.Wait()
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	delete(l.source.clientSessions, l)
	return nil
}

type sessionCallKey struct{ source *Source }

// sessionCall is attached to the context of calls in a client's session.
type sessionCall struct {
	session func(ctx context.Context) (*UpstreamSession, error)
	params  json.RawMessage
}

// CallContext returns a context in which calls of the source's functions use this session. params are those of the client's
// tools/call; members other than name and arguments (_meta, inputResponses, requestState) are passed on to the server. nil: none.
// A JSON-RPC error of the server is the Err of the returned fault (*jsonrpc.Error).
func (l *UpstreamSession) CallContext(ctx context.Context, params json.RawMessage) context.Context {
	return l.source.Within(ctx, params, func(context.Context) (*UpstreamSession, error) { return l, nil })
}

// Within is like CallContext for a session that is looked up at each call. Its answers belong to the client alone and are never
// cached.
func (s *Source) Within(
	ctx context.Context, params json.RawMessage, open func(ctx context.Context) (*UpstreamSession, error),
) context.Context {
	return context.WithValue(steps.Private(ctx, s.options.Name), sessionCallKey{s}, &sessionCall{open, params})
}

// acquire returns the session's connection, which the caller releases. It connects again if the connection was lost.
func (l *UpstreamSession) acquire(ctx context.Context) (*connection, *fault.Error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, l.source.unavailable("its session with this client has ended")
		case l.conn != nil && l.conn.ctx.Err() == nil:
			n := l.conn
			n.calls++
			l.mu.Unlock()
			return n, nil
		case l.connecting != nil:
		case l.failure != nil && time.Since(l.failedAt) < hurryAfter:
			f := *l.failure
			l.mu.Unlock()
			f.Outcome = fault.NotSent
			return nil, &f
		default:
			l.connecting = make(chan struct{})
			l.background.Go(l.run)
		}
		opening := l.connecting
		l.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, stopped(ctx, l.source.options.Name+" has not been ready", fault.NotSent)
		}
	}
}

// release returns a connection. An unreachable one is closed after its last call.
func (l *UpstreamSession) release(n *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.calls--
	n.used = time.Now()
	if n.calls == 0 && n.unreachable.Load() {
		n.cancel()
	}
}

// run opens a connection and closes it when it is lost or the session ends.
func (l *UpstreamSession) run() {
	slot := &sessionSlot{l}
	defer l.source.releaseSlot(slot)
	var n *connection
	f := l.source.acquireSlot(slot)
	if f == nil {
		n, f = l.connect()
	}
	l.mu.Lock()
	if l.conn, l.failure = n, f; f != nil {
		l.failedAt = time.Now()
	} else {
		l.connects++
	}
	again := l.connects > 1
	close(l.connecting)
	l.connecting = nil
	l.mu.Unlock()
	if n == nil {
		return
	}
	if again {
		l.announceLists(n)
	}
	begun := time.Now()
	select {
	case <-n.ctx.Done():
	case <-l.ctx.Done():
	}
	n.close()
	l.source.releaseSlot(slot)
	l.reconnect(time.Since(begun) >= healthyAfter)
}

// SetReconnect makes a lost connection open again by itself, with back-off, so that no notifications are missed. Sessions with
// subscriptions always do.
func (l *UpstreamSession) SetReconnect(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reconnects = on
}

// wantsNotifications reports whether the client waits for notifications.
func (l *UpstreamSession) wantsNotifications() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && (l.reconnects || len(l.subscribed) > 0)
}

// reconnect opens a lost connection again if the client waits for notifications.
func (l *UpstreamSession) reconnect(healthy bool) {
	l.mu.Lock()
	if l.losses++; healthy {
		l.losses = 1
	}
	failures := l.losses
	l.mu.Unlock()
	for ; l.wantsNotifications(); failures++ {
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

// announceLists tells the client that the server's lists may have changed with the new connection.
func (l *UpstreamSession) announceLists(n *connection) {
	c := n.client.InitializeResult().Capabilities
	if c == nil || l.downstream.Notify == nil {
		return
	}
	announce := func(method string) {
		select {
		case l.notifications <- notification{method: method, data: []byte("{}")}:
		default: // the client is too slow
		}
	}
	if c.Tools != nil {
		announce("notifications/tools/list_changed")
	}
	if c.Resources != nil {
		announce("notifications/resources/list_changed")
	}
	if c.Prompts != nil {
		announce("notifications/prompts/list_changed")
	}
}

// connect greets the server and restores the client's log level and subscriptions.
func (l *UpstreamSession) connect() (*connection, *fault.Error) {
	s := l.source
	ctx, cancel := context.WithTimeout(l.ctx, s.options.StartTimeout)
	defer cancel()
	n, f, silent := s.connect(ctx, l.protocol(), l)
	if f != nil && silent && !l.hasSessions() && ctx.Err() == nil {
		n, f, _ = s.connect(ctx, protocol.Stateful, l) // it may know only the older greeting
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
		_, _ = n.request(ctx, methodSetLevel, level) // a refusal is the same as before
	}
	for _, params := range subscribed {
		_, _ = n.subscription(ctx, methodSubscribe, params)
	}
	return n, nil
}

// hasSessions reports whether the client's MCP version has sessions, in which the server can send requests.
func (l *UpstreamSession) hasSessions() bool {
	return l.downstream.Protocol != "" && l.downstream.Protocol <= protocol.Stateful
}

// protocol returns the MCP version for the greeting; "": the newest.
func (l *UpstreamSession) protocol() string {
	s := l.source
	if l.hasSessions() {
		if p := s.options.Protocol; p != "" && p < protocol.Stateful {
			return p
		}
		return protocol.Stateful
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil { // its version is known
		return s.conn.protocol
	}
	return s.options.Protocol
}

// introduce sets the client information and capabilities for the greeting.
func (l *UpstreamSession) introduce(who **sdk.Implementation, o *sdk.ClientOptions) {
	o.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	if c := l.capabilities(); c != nil {
		o.Capabilities = c
	}
	if l.downstream.Info != nil {
		*who = l.downstream.Info
	}
	// They make the SDK subscribe to these lists (2026-07-28); the tap takes the notifications before the SDK.
	o.PromptListChangedHandler = func(context.Context, *sdk.PromptListChangedRequest) {}
	o.ResourceListChangedHandler = func(context.Context, *sdk.ResourceListChangedRequest) {}
}

// appsExtension is MCP Apps. It needs tools, their _meta and resources, which all pass through a session.
const appsExtension = "io.modelcontextprotocol/ui"

// capabilities returns the client's capabilities for the server; nil: none. MCP Apps is the only extension passed on.
//
//nolint:staticcheck // clients still have roots
func (l *UpstreamSession) capabilities() *sdk.ClientCapabilities {
	if l.downstream.Capabilities == nil {
		return nil
	}
	c := *l.downstream.Capabilities
	c.Extensions, c.Experimental = nil, nil
	if apps, ok := l.downstream.Capabilities.Extensions[appsExtension]; ok {
		c.Extensions = map[string]any{appsExtension: apps}
	}
	if !l.source.options.Roots {
		c.RootsV2, c.Roots.ListChanged = nil, false
	}
	return &c
}

// allCapabilities are those of a client that can answer all requests of servers.
//
//nolint:staticcheck // servers still ask for roots and sample
func allCapabilities(roots bool) *sdk.ClientCapabilities {
	c := &sdk.ClientCapabilities{
		Sampling:    &sdk.SamplingCapabilities{},
		Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}},
	}
	if roots {
		c.RootsV2 = &sdk.RootCapabilities{ListChanged: true}
	}
	return c
}

// deliverNotifications passes on the notifications outside of calls until the session is closed.
func (l *UpstreamSession) deliverNotifications() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case n := <-l.notifications:
			l.downstream.Notify(l.ctx, n.method, n.data)
		}
	}
}

// remember stores what a new connection has to repeat.
func (l *UpstreamSession) remember(method string, params json.RawMessage) {
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
