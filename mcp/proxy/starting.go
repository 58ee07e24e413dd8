package proxy

import (
	"context"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// startWait bounds how long a client's requests wait for starting upstreams, counted from the first such request. Slower upstreams are
// announced later.
const startWait = 2 * time.Second

// awaitStart waits for starting upstreams until startWait is over, and lets those that are still starting be announced.
func (l *sessions) awaitStart(ctx context.Context) {
	l.mu.Lock()
	if l.waitUntil.IsZero() {
		l.waitUntil = time.Now().Add(startWait)
	}
	waiting, cancel := context.WithDeadline(ctx, l.waitUntil)
	l.mu.Unlock()
	defer cancel()
	l.client.AwaitSources(waiting)
	l.watchStarting()
}

// watchStarting announces the upstreams that are still starting, once they are ready.
func (l *sessions) watchStarting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := len(l.unannounced) > 0
	for _, u := range l.starting() {
		if !slices.Contains(l.unannounced, u) {
			l.unannounced = append(l.unannounced, u)
		}
	}
	if len(l.unannounced) > 0 && !running && !l.closed {
		go l.announce()
	}
}

// starting returns the upstreams whose capabilities are not known yet, without those that the caller may not see.
func (l *sessions) starting() (list []Upstream) {
	for _, u := range l.configured() {
		isUpstream := func(s steps.SourceInfo) bool { return s.Name == u.Name() }
		if u.Capabilities() == nil && slices.ContainsFunc(l.client.View().Sources(), isUpstream) {
			list = append(list, u)
		}
	}
	return list
}

// announce announces upstreams as they become ready, until none is left.
func (l *sessions) announce() {
	for {
		changed := l.client.Changed()
		l.mu.Lock()
		waiting := slices.Clone(l.unannounced)
		l.mu.Unlock()
		done := slices.DeleteFunc(waiting, func(u Upstream) bool { return !l.announceIfReady(u) })
		l.mu.Lock()
		l.unannounced = slices.DeleteFunc(l.unannounced, func(u Upstream) bool { return slices.Contains(done, u) })
		left := len(l.unannounced)
		l.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-l.reloaded: // the new configuration has another catalog, and changed belongs to the old one
		case <-l.ctx.Done():
			return
		}
	}
}

// announceIfReady reports whether an upstream needs no announcement any more: it was announced, or is no longer configured.
func (l *sessions) announceIfReady(u Upstream) (done bool) {
	if !slices.Contains(l.configured(), u) {
		return true
	}
	c := u.Capabilities()
	if c == nil {
		return false
	}
	l.client.Refresh()
	if !slices.Contains(l.upstreams(nil), u) {
		return false // its functions are not listed yet, or the client may use none
	}
	l.announceUpstream(u, c)
	return true
}

// announceUpstream announces an upstream's lists. If a client listens, it also opens the session that receives the upstream's
// notifications.
func (l *sessions) announceUpstream(u Upstream, c *sdk.ServerCapabilities) {
	l.mu.Lock()
	hasListeners := len(l.listeners) > 0
	l.mu.Unlock()
	if hasListeners {
		if session, err := l.session(l.ctx, u); err == nil {
			session.SetReconnect(true)
		}
	}
	if c.Resources != nil {
		l.notify(l.ctx, u, "notifications/resources/list_changed", nil)
	}
	if c.Prompts != nil {
		l.notify(l.ctx, u, "notifications/prompts/list_changed", nil)
	}
}

// greet adds the upstreams' capabilities to the answer of initialize or server/discover.
func (p *clientRequest) greet(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	result, err := next(ctx, p.method, req)
	if err != nil {
		return result, err
	}
	p.sessions.awaitStart(ctx)
	switch r := result.(type) {
	case *sdk.InitializeResult:
		r.Capabilities = p.sessions.joined(r.Capabilities)
	case *sdk.DiscoverResult:
		r.Capabilities = p.sessions.joined(r.Capabilities)
	}
	return result, nil
}

// joined adds the upstreams' capabilities to the server's own. Starting upstreams count as having everything, because clients
// accept empty lists.
func (l *sessions) joined(original *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	all := sdk.ServerCapabilities{}
	if original != nil {
		all = *original
	}
	var offered []*sdk.ServerCapabilities
	for _, u := range l.upstreams(nil) {
		offered = append(offered, u.Capabilities())
	}
	if len(l.starting()) > 0 {
		offered = append(offered, allCapabilities)
	}
	for _, c := range offered {
		if r := c.Resources; r != nil {
			sum := sdk.ResourceCapabilities{}
			if all.Resources != nil {
				sum = *all.Resources
			}
			sum.Subscribe, sum.ListChanged = sum.Subscribe || r.Subscribe, sum.ListChanged || r.ListChanged
			all.Resources = &sum
		}
		if r := c.Prompts; r != nil {
			all.Prompts = &sdk.PromptCapabilities{ListChanged: r.ListChanged || all.Prompts != nil && all.Prompts.ListChanged}
		}
		if c.Completions != nil {
			all.Completions = c.Completions
		}
	}
	return &all
}

// allCapabilities are all features that upstreams can add, other than tools.
var allCapabilities = &sdk.ServerCapabilities{
	Resources:   &sdk.ResourceCapabilities{Subscribe: true, ListChanged: true},
	Prompts:     &sdk.PromptCapabilities{ListChanged: true},
	Completions: &sdk.CompletionCapabilities{},
}
