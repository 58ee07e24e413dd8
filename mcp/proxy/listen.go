package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// listener is a stream on which a client of MCP 2026-07-28 receives notifications (subscriptions/listen). The SDK sends the
// notifications about the server's own tools.
type listener struct {
	sessions *sessions
	session  *sdk.ServerSession
	ctx      context.Context // the context of the stream
	queue    chan func()

	prompts, resources bool       // wants changes of the lists
	known              *mcp.Tools // tools that the client knows (see toolLists.shown); guarded by sessions.mu
	uris               []string   // the resources that the client follows

	mu    sync.Mutex
	id    any  // the id of the subscription; nil: not acknowledged yet
	tools bool // wants changes of the list of tools
}

// maxQueued bounds the queued notifications of a listener.
const maxQueued = 256

type listenerKey struct{}

// listen adds the upstreams' notifications to a client's stream.
func (p *clientRequest) listen(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	original, ok := req.(*sdk.SubscriptionsListenRequest)
	if !ok || original.Params == nil || original.Params.Notifications == nil {
		return next(ctx, p.method, req)
	}
	l := p.sessions
	l.awaitStart(ctx)
	want := *original.Params.Notifications
	stream := &listener{sessions: l, session: p.client, queue: make(chan func(), maxQueued), known: l.client.Tools()}
	offered := l.joined(nil)
	stream.prompts = want.PromptsListChanged && offered.Prompts != nil && offered.Prompts.ListChanged
	stream.resources = want.ResourcesListChanged && offered.Resources != nil && offered.Resources.ListChanged
	reqParams := onlyMeta(params(req))
	if offered.Resources != nil && offered.Resources.Subscribe {
		for _, uri := range want.ResourceSubscriptions {
			if p.follow(ctx, uri, reqParams) {
				stream.uris = append(stream.uris, uri)
			}
		}
	}
	defer func() {
		for _, uri := range stream.uris {
			// An upstream that is gone has no subscription.
			_, _ = l.unsubscribe(context.WithoutCancel(ctx), uri, raw.With(reqParams, "uri", quote(uri)))
		}
	}()
	l.beginListening()
	defer l.endListening()
	if stream.prompts || stream.resources {
		p.openListening(ctx, stream)
	}
	ctx = context.WithValue(ctx, listenerKey{}, stream)
	stream.ctx = ctx
	l.mu.Lock()
	l.listeners[stream] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.listeners, stream)
		l.mu.Unlock()
	}()
	deliverCtx, stop := context.WithCancel(ctx)
	defer stop()
	go stream.deliver(deliverCtx)
	asked := *original.Params
	want.ResourceSubscriptions = nil
	asked.Notifications = &want
	result, err := next(ctx, p.method, &sdk.SubscriptionsListenRequest{Session: original.Session, Params: &asked, Extra: original.Extra})
	if err == nil && stream.any() {
		select {
		case <-ctx.Done():
		case <-l.ctx.Done():
		}
	}
	return result, err
}

// any reports whether the client wants anything from upstreams other than changes of tools.
func (h *listener) any() bool { return h.prompts || h.resources || len(h.uris) > 0 }

// follow subscribes to a resource; all listeners share one subscription. It returns false if there are too many subscriptions, or if no
// upstream accepts this one.
func (p *clientRequest) follow(ctx context.Context, uri string, reqParams json.RawMessage) bool {
	l := p.sessions
	l.mu.Lock()
	if w := l.subscriptions[uri]; w != nil {
		w.count++
		l.mu.Unlock()
		return true
	}
	full := len(l.subscriptions) >= maxSubscriptions
	l.mu.Unlock()
	if full {
		return false
	}
	subscribing := *p
	subscribing.method = "resources/subscribe"
	_, u, err := subscribing.first(ctx, raw.With(reqParams, "uri", quote(uri)), l.upstreams(subscribes))
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.subscriptions[uri]; w != nil { // another request was faster
		w.count++
	} else {
		l.subscriptions[uri] = &subscription{upstream: u, count: 1}
	}
	return true
}

// openListening opens the sessions in which upstreams notify of the changed lists that h wants, and keeps them connected.
func (p *clientRequest) openListening(ctx context.Context, h *listener) {
	var all sync.WaitGroup
	for _, u := range p.sessions.upstreams(nil) {
		c := u.Capabilities()
		if h.prompts && c.Prompts != nil && c.Prompts.ListChanged || h.resources && c.Resources != nil && c.Resources.ListChanged {
			all.Go(func() {
				if session, err := p.sessions.session(ctx, u); err == nil {
					session.SetReconnect(true)
				}
			})
		}
	}
	all.Wait()
}

// beginListening is called before a listener opens sessions, so that the end of another listener does not undo SetReconnect.
func (l *sessions) beginListening() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening++
}

// endListening lets lost connections stay lost after the last listener.
func (l *sessions) endListening() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listening--; l.listening > 0 {
		return
	}
	for _, o := range l.opened { // with l.mu held, so that no listener begins in between
		if session := o.ifOpen(); session != nil {
			session.SetReconnect(false)
		}
	}
}

// acknowledge adds the upstreams' part to the SDK's acknowledgement. The caller calls sent after the acknowledgement was sent.
func (h *listener) acknowledge(req sdk.Request) (sent func()) {
	acknowledged, ok := req.GetParams().(*sdk.SubscriptionsAcknowledgedParams)
	if !ok {
		return func() {}
	}
	acknowledged.Notifications.PromptsListChanged = h.prompts
	acknowledged.Notifications.ResourcesListChanged = h.resources
	acknowledged.Notifications.ResourceSubscriptions = h.uris
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.id, h.tools = acknowledged.Meta[sdk.MetaKeySubscriptionID], acknowledged.Notifications.ToolsListChanged
	}
}

// deliver sends the queued notifications in order until the stream ends.
func (h *listener) deliver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case send := <-h.queue:
			send()
		}
	}
}

// goesToListeners reports whether a notification goes to listeners only.
func (l *sessions) goesToListeners(method string) bool {
	switch method {
	case "notifications/resources/list_changed", "notifications/prompts/list_changed", "notifications/resources/updated",
		"notifications/tools/list_changed":
	default:
		return false
	}
	if l.server == nil {
		return true
	}
	hello := l.server.InitializeParams()
	return hello != nil && hello.ProtocolVersion >= protocol.Stateless
}

// notifyListeners queues a notification for the listeners that want it. Slow listeners miss some.
func (l *sessions) notifyListeners(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.listeners {
		if !h.wants(method, gjson.GetBytes(params, "uri").String()) {
			continue
		}
		select {
		case h.queue <- func() { h.send(method, params) }:
		default:
		}
	}
}

func (h *listener) wants(method, uri string) bool {
	switch method {
	case "notifications/prompts/list_changed":
		return h.prompts
	case "notifications/resources/list_changed":
		return h.resources
	case "notifications/tools/list_changed":
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.tools
	}
	for _, watched := range h.uris { // a notification may be about a part of the resource
		if uri == watched || strings.HasPrefix(uri, strings.TrimSuffix(watched, "/")+"/") {
			return true
		}
	}
	return false
}

// send sends a notification, or drops it if the stream is not acknowledged yet.
func (h *listener) send(method string, params json.RawMessage) {
	h.mu.Lock()
	id := h.id
	h.mu.Unlock()
	if id == nil {
		return
	}
	text, err := json.Marshal(id)
	if err != nil {
		return
	}
	meta := raw.With(json.RawMessage(gjson.GetBytes(params, "_meta").Raw), sdk.MetaKeySubscriptionID, text)
	_ = send(h.ctx, h.session, method, raw.With(params, "_meta", meta)) // an error means that the client has left
}
