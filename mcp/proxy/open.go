package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Within implements mcp.UpstreamSessions: calls of upstreams' functions use the client's own sessions, whichever tool makes them,
// so that a chain finds the state that a server keeps between calls.
func (l *sessions) Within(ctx context.Context, params json.RawMessage) context.Context {
	for _, u := range l.configured() {
		ctx = u.Within(ctx, params, func(ctx context.Context) (*mcpsource.UpstreamSession, error) { return l.session(ctx, u) })
	}
	return ctx
}

// session returns the session with an upstream, and opens it if necessary. The end of ctx ends the wait, but not the opening, which
// later callers also wait for.
func (l *sessions) session(ctx context.Context, u Upstream) (*mcpsource.UpstreamSession, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "the session has ended")
	}
	o := l.opened[u.Name()]
	if o == nil {
		o = &pendingSession{upstream: u, done: make(chan struct{})}
		l.opened[u.Name()] = o
		client := l.downstreamClient(u)
		go l.open(u, client, o)
	}
	l.mu.Unlock()
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		return nil, fault.New(fault.Cancelled, "%s was not ready when the request was cancelled", u.Name())
	}
}

func (l *sessions) open(u Upstream, client *mcpsource.DownstreamClient, o *pendingSession) {
	o.session, o.err = u.OpenSession(l.ctx, client)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(o.done) // with l.mu held: setLevel passes each level either to this loop or to the open session
	for sent := json.RawMessage(nil); o.err == nil && !l.closed && logs(u) && !bytes.Equal(sent, l.level); {
		sent = l.level
		l.mu.Unlock()
		_, _ = o.session.Do(l.ctx, "logging/setLevel", sent) // a refusal does not matter
		l.mu.Lock()
	}
	switch {
	case o.err != nil && l.opened[u.Name()] == o:
		delete(l.opened, u.Name()) // the next use tries again
	case o.err == nil && l.closed:
		o.err = fault.New(fault.Unavailable, "the session has ended") // Close closes it
	}
}

// Close implements mcp.UpstreamSessions. It waits until the sessions are closed.
func (l *sessions) Close() {
	l.mu.Lock()
	l.closed = true
	var all []*pendingSession
	for _, o := range l.opened {
		all = append(all, o)
	}
	l.mu.Unlock()
	l.cancel()
	var closing sync.WaitGroup
	for _, o := range all {
		closing.Go(func() {
			<-o.done
			if o.session != nil {
				_ = o.session.Close()
			}
		})
	}
	closing.Wait()
}
