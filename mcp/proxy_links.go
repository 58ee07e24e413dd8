package mcp

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
)

// within gives a context with which the functions of upstreams are called in the client's own sessions with them, whatever
// tool calls them: a server that keeps something between calls finds it again in a chain. They are opened at their first
// call. params are as for Upstream.Within. l may be nil.
func (l *links) within(ctx context.Context, params json.RawMessage) context.Context {
	if l == nil {
		return ctx
	}
	for _, u := range l.face.server.o().Upstreams {
		ctx = u.Within(ctx, params, func(ctx context.Context) (Link, error) { return l.link(ctx, u) })
	}
	return ctx
}

// beside is what stands beside the arguments in the call of a tool; nil: nothing that could be handed on.
func beside(req *sdk.CallToolRequest) json.RawMessage {
	params := *req.Params
	params.Arguments = nil
	text, err := json.Marshal(&params)
	if err != nil {
		return nil
	}
	return text
}

// logsOnly is what of the params of a chain goes with each call that it makes: which log messages the client wants.
func logsOnly(req sdk.Request) json.RawMessage {
	params := req.GetParams()
	if params == nil || reflect.ValueOf(params).IsNil() {
		return nil
	}
	level, ok := params.GetMeta()[metaLogLevel].(string)
	if !ok {
		return nil
	}
	return with(nil, "_meta", with(nil, metaLogLevel, quote(level)))
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

func (l *links) open(u Upstream, peer *Peer, o *opening) {
	defer close(o.done)
	o.link, o.err = u.Open(l.ctx, peer)
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
