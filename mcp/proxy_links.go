package mcp

import (
	"context"
	"encoding/json"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
)

// call gives a context with which a function of a source is called in the client's own session with its upstream, with
// what req carries beside the arguments (inputResponses, requestState); ctx itself where the source is no upstream. l may
// be nil.
func (l *links) call(ctx context.Context, source string, req *sdk.CallToolRequest) (context.Context, error) {
	if l == nil {
		return ctx, nil
	}
	for _, u := range l.face.server.o.Upstreams {
		if u.Name() != source {
			continue
		}
		link, err := l.link(ctx, u)
		if err != nil {
			return nil, err
		}
		beside := *req.Params
		beside.Arguments = nil
		params, err := json.Marshal(&beside)
		if err != nil {
			return nil, fault.New(fault.BadRequest, "what stands beside the arguments cannot be handed on: %v", err)
		}
		return link.Call(ctx, params), nil
	}
	return ctx, nil
}

// within gives a context with which functions are called in those of the client's sessions that are open, whatever tool
// calls them: a server over stdio that keeps something between calls finds it again in a chain.
func (l *links) within(ctx context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.opened {
		select {
		case <-o.done:
			if o.link != nil {
				ctx = o.link.Call(ctx, nil)
			}
		default:
		}
	}
	return ctx
}

// link gives the session with an upstream. The one who asks first has it opened, but does not decide how long that goes on.
func (l *links) link(ctx context.Context, u Upstream) (Link, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "the session has ended")
	}
	o := l.opened[u.Name()]
	if o == nil {
		o = &opening{done: make(chan struct{})}
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

func (l *links) open(u Upstream, peer *Peer, o *opening) {
	defer close(o.done)
	o.link, o.err = u.Open(l.ctx, peer)
	l.mu.Lock()
	level, closed := l.level, l.closed
	if o.err != nil {
		delete(l.opened, u.Name()) // the next use tries again
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

// close ends all of them.
func (l *links) close() {
	if l == nil {
		return
	}
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
