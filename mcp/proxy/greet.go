package proxy

import (
	"context"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// settleTime is how long a client's requests wait, in all, for upstreams that are starting. What one that takes longer offers
// beside tools is announced when it is there.
const settleTime = 2 * time.Second

// settle waits for upstreams that are starting.
func (l *links) settle(ctx context.Context) {
	l.mu.Lock()
	if l.settled.IsZero() {
		l.settled = time.Now().Add(settleTime)
	}
	waiting, cancel := context.WithDeadline(ctx, l.settled)
	l.mu.Unlock()
	defer cancel()
	l.client.Settle(waiting)
	l.expect()
}

// expect has the client told when upstreams that are unknown now are there.
func (l *links) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if unknown := l.unknown(); len(unknown) > 0 && !l.expecting && !l.closed {
		l.expecting = true
		go l.announce(unknown)
	}
}

// unknown are the upstreams of which it is not known yet what they offer, as far as the caller may know of them.
func (l *links) unknown() (list []Upstream) {
	for _, u := range l.served() {
		if u.Capabilities() == nil && slices.ContainsFunc(l.client.View().Sources(), func(s steps.SourceInfo) bool { return s.Name == u.Name() }) {
			list = append(list, u)
		}
	}
	return list
}

// announce tells of upstreams when they are there, until all are.
func (l *links) announce(unknown []Upstream) {
	for len(unknown) > 0 {
		changed := l.client.Changed()
		unknown = slices.DeleteFunc(unknown, func(u Upstream) bool {
			c := u.Capabilities()
			if c == nil {
				return false
			}
			l.client.Refresh()
			if !slices.Contains(l.upstreams(nil), u) {
				return false // its functions are not there yet, or the client may use none
			}
			l.arrived(u, c)
			return true
		})
		select {
		case <-changed:
		case <-l.ctx.Done():
			return
		}
	}
	l.mu.Lock()
	l.expecting = false
	l.mu.Unlock()
}

// arrived tells that there is more in the lists, and listens to what the upstream tells if anybody does.
func (l *links) arrived(u Upstream, c *sdk.ServerCapabilities) {
	l.mu.Lock()
	heard := len(l.listeners) > 0
	l.mu.Unlock()
	if heard {
		if link, err := l.link(l.ctx, u); err == nil {
			link.Listen(true)
		}
	}
	if c.Resources != nil {
		l.notify(l.ctx, u, "notifications/resources/list_changed", nil)
	}
	if c.Prompts != nil {
		l.notify(l.ctx, u, "notifications/prompts/list_changed", nil)
	}
}

// greet adds what upstreams offer to what a client is told at first.
func (p *passing) greet(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	result, err := next(ctx, p.method, req)
	if err != nil {
		return result, err
	}
	p.links.settle(ctx)
	switch r := result.(type) {
	case *sdk.InitializeResult:
		r.Capabilities = p.links.joined(r.Capabilities)
	case *sdk.DiscoverResult:
		r.Capabilities = p.links.joined(r.Capabilities)
	}
	return result, nil
}

// joined are a toolset's own capabilities and those of its upstreams. One that is unknown may have all there is: empty lists are
// none that a client minds.
func (l *links) joined(own *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	all := sdk.ServerCapabilities{}
	if own != nil {
		all = *own
	}
	var offered []*sdk.ServerCapabilities
	for _, u := range l.upstreams(nil) {
		offered = append(offered, u.Capabilities())
	}
	if len(l.unknown()) > 0 {
		offered = append(offered, anything)
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

// anything is what an upstream may offer beside tools.
var anything = &sdk.ServerCapabilities{
	Resources:   &sdk.ResourceCapabilities{Subscribe: true, ListChanged: true},
	Prompts:     &sdk.PromptCapabilities{ListChanged: true},
	Completions: &sdk.CompletionCapabilities{},
}
