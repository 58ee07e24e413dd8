package proxy

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Within implements mcp.Links: the functions of upstreams are called in the client's own sessions with them, whatever tool calls
// them, so that a server that keeps something between calls finds it again in a chain. They are opened at their first call.
func (l *links) Within(ctx context.Context, params json.RawMessage) context.Context {
	for _, u := range l.served() {
		ctx = u.Within(ctx, params, func(ctx context.Context) (*mcpsource.Link, error) { return l.link(ctx, u) })
	}
	return ctx
}

// link gives the session with an upstream. The one who asks first has it opened, but does not decide how long that goes on.
func (l *links) link(ctx context.Context, u Upstream) (*mcpsource.Link, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "the session has ended")
	}
	o := l.opened[u.Name()]
	if o == nil {
		o = &opening{of: u, done: make(chan struct{})}
		l.opened[u.Name()] = o
		peer := l.peer(u)
		go l.open(u, peer, o)
	}
	l.mu.Unlock()
	select {
	case <-o.done:
		return o.link, o.err
	case <-ctx.Done():
		return nil, fault.New(fault.Cancelled, "%s had not been ready when the request was cancelled", u.Name())
	}
}

func (l *links) open(u Upstream, peer *mcpsource.Peer, o *opening) {
	defer close(o.done)
	o.link, o.err = u.Link(l.ctx, peer)
	l.mu.Lock()
	level, closed := l.level, l.closed
	if o.err != nil {
		if l.opened[u.Name()] == o {
			delete(l.opened, u.Name()) // the next use tries again
		}
	}
	l.mu.Unlock()
	switch {
	case o.err != nil:
	case closed:
		_ = o.link.Close()
		o.link, o.err = nil, fault.New(fault.Unavailable, "the session has ended")
	case level != nil && logs(u):
		_, _ = o.link.Do(l.ctx, "logging/setLevel", level) // an upstream that refuses it logs as it likes
	}
}

// Close implements mcp.Links.
func (l *links) Close() {
	l.mu.Lock()
	l.closed = true
	var all []*opening
	for _, o := range l.opened {
		all = append(all, o)
	}
	l.mu.Unlock()
	l.cancel()
	var closing sync.WaitGroup
	for _, o := range all {
		closing.Go(func() {
			<-o.done
			if o.link != nil {
				_ = o.link.Close()
			}
		})
	}
	closing.Wait()
}
