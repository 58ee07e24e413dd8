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

// DownstreamClient is the MCP client for which a session with the server is opened.
type DownstreamClient struct {
	Capabilities *sdk.ClientCapabilities // declared to the server; nil: none
	Protocol     string                  // the client's MCP version; "": the newest
	Info         *sdk.Implementation     // how the client introduces itself; nil: as onecall
	Shared       bool                    // several clients share the session: see Notify

	// Ask passes a request of the server to the client: sampling/createMessage, elicitation/create or roots/list. ctx belongs to
	// the call during which the server asks, else to the session; it ends when the server no longer needs an answer. A
	// *jsonrpc.Error is passed to the server unchanged, and ErrCallEnded says that the call ended before the client had answered. nil: the
	// client cannot be asked.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify passes a notification of the server to the client; ctx as for Ask. It is called in the server's order, separately
	// for the notifications of each tool call and for those outside of calls. A slow client misses notifications. If the session is
	// Shared, messages for an unknown call are dropped, because they may be for any of the clients. nil: all are dropped.
	Notify func(ctx context.Context, method string, params json.RawMessage)
}

// UpstreamSession is a client's own session with the server, isolated from all others. Over stdio it has its own process. After its
// connection was lost, or closed to make room for another client, its next use opens a new one, with the client's log level and
// subscriptions. It is safe for concurrent use.
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
	failure    *fault.Error  // the fault of the last connection attempt; nil: it succeeded, or none has ended yet
	failedAt   time.Time     // when the last attempt failed
	level      json.RawMessage
	subscribed map[string]json.RawMessage // params of the subscriptions, by URI
	reconnects bool                       // see SetReconnect
	connects   int                        // connections so far
	losses     int                        // lost connections in a row; starts at 1 again with one that lasted healthyAfter
	closed     bool
}

// OpenSession opens a client's own session with the server. Clients of MCP 2025-11-25 or older get one with the initialize
// handshake, in which the server can send requests and notifications; newer clients get the server's newest version. The caller
// closes it. Errors: limit_exceeded if MaxSessions sessions are in use; unavailable, denied and others as for the start of a
// source; cancelled or timeout if ctx ends.
func (s *Source) OpenSession(ctx context.Context, client *DownstreamClient) (*UpstreamSession, error) {
	session := &UpstreamSession{source: s, subscribed: map[string]json.RawMessage{}, notifications: make(chan notification, maxNotifications)}
	if client != nil {
		session.downstream = *client
	}
	session.ctx, session.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	var f *fault.Error
	switch {
	case s.closed:
		f = s.unavailable("the source is closed")
	default:
		s.clientSessions[session] = true
	}
	s.mu.Unlock()
	if f != nil {
		session.cancel()
		return nil, f
	}
	session.background.Go(session.deliverNotifications)
	conn, f := session.acquire(ctx)
	if f != nil {
		_ = session.Close()
		return nil, f
	}
	session.release(conn)
	return session, nil
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
func (u *UpstreamSession) Close() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.cancel()
	u.background.Wait()
	u.source.mu.Lock()
	defer u.source.mu.Unlock()
	delete(u.source.clientSessions, u)
	return nil
}

// disconnect closes the session's connection, if it has one, and returns how many calls that ends. Its next use opens another.
func (u *UpstreamSession) disconnect() (calls int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn == nil || u.conn.ctx.Err() != nil {
		return 0
	}
	u.conn.cancel()
	return u.conn.calls
}

type sessionCallKey struct{ source *Source }

// sessionCall is attached to the context of calls in a client's session.
type sessionCall struct {
	session func(ctx context.Context) (*UpstreamSession, error) // returns the session to use
	params  json.RawMessage                                     // of the client's tools/call; nil: none
}

// CallContext returns a context in which calls of the source's functions use this session. params are those of the client's
// tools/call; members other than name and arguments (_meta, inputResponses, requestState) are passed on to the server. nil: none.
// A JSON-RPC error of the server is the Err of the returned fault (*jsonrpc.Error).
func (u *UpstreamSession) CallContext(ctx context.Context, params json.RawMessage) context.Context {
	return u.source.Within(ctx, params, func(context.Context) (*UpstreamSession, error) { return u, nil })
}

// Within is like CallContext, but open returns the session to use, and is called for each call. Answers in a session belong to its client
// alone and are never cached.
func (s *Source) Within(
	ctx context.Context, params json.RawMessage, open func(ctx context.Context) (*UpstreamSession, error),
) context.Context {
	return context.WithValue(steps.WithPrivateCalls(ctx, s.options.Name), sessionCallKey{s}, &sessionCall{open, params})
}

// acquire returns the session's connection, which the caller releases. If the connection was lost, acquire connects again. Within
// hurryAfter of a failed attempt, it returns that failure instead.
func (u *UpstreamSession) acquire(ctx context.Context) (*connection, *fault.Error) {
	for {
		u.mu.Lock()
		switch {
		case u.closed:
			u.mu.Unlock()
			return nil, u.source.unavailable("its session with this client has ended")
		case u.conn != nil && u.conn.usable():
			conn := u.conn
			conn.calls++
			u.mu.Unlock()
			return conn, nil
		case u.connecting != nil:
		case u.failure != nil && time.Since(u.failedAt) < hurryAfter:
			f := *u.failure
			u.mu.Unlock()
			f.Outcome = fault.NotSent
			return nil, &f
		default:
			u.connecting = make(chan struct{})
			u.background.Go(u.run)
		}
		opening := u.connecting
		u.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, stopped(ctx, u.source.options.Name+" was not ready", fault.NotSent)
		}
	}
}

// release returns a connection. An unreachable or doubted one is closed after its last call.
func (u *UpstreamSession) release(conn *connection) {
	u.mu.Lock()
	defer u.mu.Unlock()
	conn.calls--
	conn.used = time.Now()
	if conn.calls == 0 && (conn.unreachable.Load() || conn.doubted.Load()) {
		conn.cancel()
	}
}

// run opens a connection and closes it when it is lost or the session ends.
func (u *UpstreamSession) run() {
	slot := &sessionSlot{u}
	defer u.source.releaseSlot(slot)
	var conn *connection
	f := u.source.acquireSlot(slot)
	if f == nil {
		conn, f = u.connect()
	}
	u.mu.Lock()
	if u.conn, u.failure = conn, f; f != nil {
		u.failedAt = time.Now()
	} else {
		u.connects++
	}
	again := u.connects > 1
	close(u.connecting)
	u.connecting = nil
	u.mu.Unlock()
	if conn == nil {
		return
	}
	if again {
		u.announceLists(conn)
	}
	begun := time.Now()
	select {
	case <-conn.ctx.Done():
	case <-u.ctx.Done():
	}
	conn.close()
	u.source.releaseSlot(slot)
	u.reconnect(time.Since(begun) >= healthyAfter)
}

// SetReconnect sets whether a lost connection opens again by itself, with back-off, so that no notifications are missed. Sessions
// with subscriptions always reconnect.
func (u *UpstreamSession) SetReconnect(on bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reconnects = on
}

// wantsNotifications reports whether the client waits for notifications.
func (u *UpstreamSession) wantsNotifications() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.closed && (u.reconnects || len(u.subscribed) > 0)
}

// reconnect opens a lost connection again if the client waits for notifications.
func (u *UpstreamSession) reconnect(healthy bool) {
	u.mu.Lock()
	if u.losses++; healthy {
		u.losses = 1
	}
	failures := u.losses
	u.mu.Unlock()
	for ; u.wantsNotifications(); failures++ {
		timer := time.NewTimer(backoff(failures))
		select {
		case <-timer.C:
		case <-u.ctx.Done():
			timer.Stop()
			return
		}
		if conn, f := u.acquire(u.ctx); f == nil {
			u.release(conn)
			return
		}
	}
}

// announceLists tells the client that the server's lists may have changed with the new connection.
func (u *UpstreamSession) announceLists(conn *connection) {
	capabilities := conn.client.InitializeResult().Capabilities
	if capabilities == nil || u.downstream.Notify == nil {
		return
	}
	announce := func(method string) {
		select {
		case u.notifications <- notification{method: method, data: []byte("{}")}:
		default: // the client is too slow
		}
	}
	if capabilities.Tools != nil {
		announce("notifications/tools/list_changed")
	}
	if capabilities.Resources != nil {
		announce("notifications/resources/list_changed")
	}
	if capabilities.Prompts != nil {
		announce("notifications/prompts/list_changed")
	}
}

// connect greets the server and restores the client's log level and subscriptions.
func (u *UpstreamSession) connect() (*connection, *fault.Error) {
	s := u.source
	ctx, cancel := context.WithTimeout(u.ctx, s.options.StartTimeout)
	defer cancel()
	conn, f, silent := s.connect(ctx, u.protocol(), u)
	if f != nil && silent && !u.hasSessions() && ctx.Err() == nil {
		conn, f, _ = s.connect(ctx, protocol.Stateful, u) // it may know only the older greeting
	}
	if f != nil {
		return nil, f
	}
	u.mu.Lock()
	level, subscribed := u.level, make([]json.RawMessage, 0, len(u.subscribed))
	for _, params := range u.subscribed {
		subscribed = append(subscribed, params)
	}
	u.mu.Unlock()
	if level != nil {
		_, _ = conn.request(ctx, methodSetLevel, level) // a refusal only repeats an earlier one
	}
	for _, params := range subscribed {
		_, _ = conn.subscription(ctx, methodSubscribe, params)
	}
	return conn, nil
}

// hasSessions reports whether the client's MCP version has sessions, in which the server can send requests.
func (u *UpstreamSession) hasSessions() bool {
	return u.downstream.Protocol != "" && u.downstream.Protocol <= protocol.Stateful
}

// protocol returns the MCP version for the greeting; "": the newest.
func (u *UpstreamSession) protocol() string {
	s := u.source
	if u.hasSessions() {
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
func (u *UpstreamSession) introduce(info **sdk.Implementation, o *sdk.ClientOptions) {
	o.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	if c := u.capabilities(); c != nil {
		o.Capabilities = c
	}
	if u.downstream.Info != nil {
		*info = u.downstream.Info
	}
	// With these handlers the SDK subscribes to the lists (2026-07-28); the tap takes the notifications before they are called.
	o.PromptListChangedHandler = func(context.Context, *sdk.PromptListChangedRequest) {}
	o.ResourceListChangedHandler = func(context.Context, *sdk.ResourceListChangedRequest) {}
}

// appsExtension is MCP Apps. It needs tools, their _meta and resources, which all pass through a session.
const appsExtension = "io.modelcontextprotocol/ui"

// capabilities returns the client's capabilities for the server; nil: none. MCP Apps is the only extension passed on.
//
//nolint:staticcheck // clients still have roots
func (u *UpstreamSession) capabilities() *sdk.ClientCapabilities {
	if u.downstream.Capabilities == nil {
		return nil
	}
	c := *u.downstream.Capabilities
	c.Extensions, c.Experimental = nil, nil
	if apps, ok := u.downstream.Capabilities.Extensions[appsExtension]; ok {
		c.Extensions = map[string]any{appsExtension: apps}
	}
	if !u.source.options.Roots {
		c.RootsV2, c.Roots.ListChanged = nil, false
	}
	return &c
}

// allCapabilities returns the capabilities of a client that can answer all requests of servers.
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
func (u *UpstreamSession) deliverNotifications() {
	for {
		select {
		case <-u.ctx.Done():
			return
		case n := <-u.notifications:
			u.downstream.Notify(u.ctx, n.method, n.data)
		}
	}
}

// remember stores the log level and subscriptions for the next connection.
func (u *UpstreamSession) remember(method string, params json.RawMessage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	uri := gjson.GetBytes(params, "uri").String()
	switch method {
	case methodSetLevel:
		u.level = params
	case methodSubscribe:
		u.subscribed[uri] = params
	case methodUnsubscribe:
		delete(u.subscribed, uri)
	}
}
