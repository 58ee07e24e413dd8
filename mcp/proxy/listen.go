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
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// listener is a stream by which a client of MCP 2026-07-28 is told of changes (subscriptions/listen). What the server itself
// tells of, its tools, is the SDK's part of it.
type listener struct {
	links   *links
	session *sdk.ServerSession
	ctx     context.Context // of the stream
	queue   chan func()

	prompts, resources bool       // their lists
	offered            *mcp.Tools // the tools that the client knows of, under links.mu; nil: it was told of a change that is not known yet
	uris               []string

	mu    sync.Mutex
	id    any  // of the subscription; nil: the client has not been told yet that it has one
	tools bool // it listens to the list of tools too
}

// maxHeard is how many notifications wait for a client that listens.
const maxHeard = 256

type listenerKey struct{}

// listen adds what upstreams tell to what a client listens to.
func (p *passing) listen(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	own, ok := req.(*sdk.SubscriptionsListenRequest)
	if !ok || own.Params == nil || own.Params.Notifications == nil {
		return next(ctx, p.method, req)
	}
	l := p.links
	l.settle(ctx)
	want := *own.Params.Notifications
	heard := &listener{links: l, session: p.session, queue: make(chan func(), maxHeard), offered: l.client.Tools()}
	offered := l.joined(nil)
	heard.prompts = want.PromptsListChanged && offered.Prompts != nil && offered.Prompts.ListChanged
	heard.resources = want.ResourcesListChanged && offered.Resources != nil && offered.Resources.ListChanged
	given := onlyMeta(params(req))
	if offered.Resources != nil && offered.Resources.Subscribe {
		for _, uri := range want.ResourceSubscriptions {
			if p.follow(ctx, uri, given) {
				heard.uris = append(heard.uris, uri)
			}
		}
	}
	defer func() {
		for _, uri := range heard.uris {
			_, _ = l.unwatch(context.WithoutCancel(ctx), uri, raw.With(given, "uri", quote(uri))) // an upstream that has gone follows nothing
		}
	}()
	if heard.prompts || heard.resources {
		p.wake(ctx, heard)
	}
	ctx = context.WithValue(ctx, listenerKey{}, heard)
	heard.ctx = ctx
	l.mu.Lock()
	l.listeners[heard] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.listeners, heard)
		last := len(l.listeners) == 0
		l.mu.Unlock()
		if last {
			l.each(func(Upstream) bool { return true }, func(link *mcpsource.Link) { link.Listen(false) })
		}
	}()
	telling, stop := context.WithCancel(ctx)
	defer stop()
	go heard.tell(telling)
	asked := *own.Params
	want.ResourceSubscriptions = nil
	asked.Notifications = &want
	result, err := next(ctx, p.method, &sdk.SubscriptionsListenRequest{Session: own.Session, Params: &asked, Extra: own.Extra})
	if err == nil && heard.any() {
		select {
		case <-ctx.Done():
		case <-l.ctx.Done():
		}
	}
	return result, err
}

func (h *listener) any() bool { return h.prompts || h.resources || len(h.uris) > 0 }

// follow subscribes to a resource; one subscription serves all who listen.
func (p *passing) follow(ctx context.Context, uri string, given json.RawMessage) bool {
	l := p.links
	l.mu.Lock()
	if w := l.watched[uri]; w != nil {
		w.count++
		l.mu.Unlock()
		return true
	}
	full := len(l.watched) >= maxWatched
	l.mu.Unlock()
	if full {
		return false
	}
	subscribing := *p
	subscribing.method = "resources/subscribe"
	_, u, err := subscribing.first(ctx, raw.With(given, "uri", quote(uri)), l.upstreams(subscribes))
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.watched[uri]; w != nil { // somebody else was faster
		w.count++
	} else {
		l.watched[uri] = &watch{upstream: u, count: 1}
	}
	return true
}

// wake opens the sessions in which upstreams tell of changes of their lists.
func (p *passing) wake(ctx context.Context, h *listener) {
	var all sync.WaitGroup
	for _, u := range p.links.upstreams(nil) {
		c := u.Capabilities()
		if h.prompts && c.Prompts != nil && c.Prompts.ListChanged || h.resources && c.Resources != nil && c.Resources.ListChanged {
			all.Go(func() {
				if link, err := p.links.link(ctx, u); err == nil {
					link.Listen(true)
				}
			})
		}
	}
	all.Wait()
}

// acknowledge adds to what the SDK tells the client that it listens to. What it gives is called when that is sent.
func (h *listener) acknowledge(req sdk.Request) (sent func()) {
	said, ok := req.GetParams().(*sdk.SubscriptionsAcknowledgedParams)
	if !ok {
		return func() {}
	}
	said.Notifications.PromptsListChanged = h.prompts
	said.Notifications.ResourcesListChanged = h.resources
	said.Notifications.ResourceSubscriptions = h.uris
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.id, h.tools = said.Meta[sdk.MetaKeySubscriptionID], said.Notifications.ToolsListChanged
	}
}

// tell sends what there is to tell, in its order, until the stream ends.
func (h *listener) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case send := <-h.queue:
			send()
		}
	}
}

// tellsListeners reports whether a notification goes to those who listen, and to nobody else.
func (l *links) tellsListeners(method string) bool {
	switch method {
	case "notifications/resources/list_changed", "notifications/prompts/list_changed", "notifications/resources/updated",
		"notifications/tools/list_changed":
	default:
		return false
	}
	if l.owner == nil {
		return true
	}
	hello := l.owner.InitializeParams()
	return hello != nil && hello.ProtocolVersion >= protocol.Stateless
}

// tellListeners tells those who listen to it. One that is too slow misses what comes too fast.
func (l *links) tellListeners(method string, params json.RawMessage) {
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
	for _, watched := range h.uris {
		if uri == watched || strings.HasPrefix(uri, strings.TrimSuffix(watched, "/")+"/") {
			return true
		}
	}
	return false
}

// send tells the client, once it knows that it listens.
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
	_ = send(h.ctx, h.session, method, raw.With(params, "_meta", meta)) // a client that has gone is told nothing
}
