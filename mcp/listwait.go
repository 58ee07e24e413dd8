package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// listWait bounds how long lists wait, counted from the beginning and not from each list: clients are notified of what comes later. Many
// clients allow ten seconds in all for the handshake and the list.
const listWait = 5 * time.Second

// maxListCallers bounds the callers of whom it is known that their lists no longer wait: a login service may name any number of them. All
// are forgotten then; while a source is starting, the next list of each may wait once more.
const maxListCallers = 4096

type stdioListsKey struct{}

// withStdioLists returns the context of a client over stdio. Its lists wait for starting sources from now on.
func withStdioLists(ctx context.Context) context.Context {
	return context.WithValue(ctx, stdioListsKey{}, time.Now().Add(listWait))
}

// listsWaitUntil returns when the lists of a message's client stop waiting for starting sources. Over HTTP, the caller's first list that
// shows functions determines it.
func (s *Server) listsWaitUntil(ctx context.Context) time.Time {
	if until, ok := ctx.Value(stdioListsKey{}).(time.Time); ok {
		return until
	}
	return s.callerListsUntil(transport.RequestIn(ctx).Caller.ID)
}

// callerListsUntil returns when the lists of a caller over HTTP stop waiting.
func (s *Server) callerListsUntil(caller string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.listsUntil[caller]
	if !ok {
		if len(s.listsUntil) >= maxListCallers {
			clear(s.listsUntil)
		}
		until = time.Now().Add(listWait)
		s.listsUntil[caller] = until
	}
	return until
}

// listsWaitUntil returns when lists stop waiting for the tools of the client's own sessions, which its first list opens: listWait after
// that list began.
func (v *clientView) listsWaitUntil(began time.Time) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.listsUntil.IsZero() {
		v.listsUntil = began.Add(listWait)
	}
	return v.listsUntil
}

// awaitList makes a list wait for its sources, and updates the tools. The surface chain does not wait: its list shows no functions but
// saved chains, which are announced when they appear.
func (f *toolset) awaitList(ctx context.Context, method string, req sdk.Request) {
	if f.surface == SurfaceChain {
		f.refresh()
		return
	}
	began := time.Now()
	starting, started := context.WithDeadline(ctx, f.server.listsWaitUntil(ctx))
	f.awaitSources(starting)
	started()
	if ss, ok := req.GetSession().(*sdk.ServerSession); ok && method == "tools/list" {
		if v := f.viewOf(ss); v != nil {
			listing, listed := context.WithDeadline(ctx, v.listsWaitUntil(began))
			v.upstreams.Await(listing)
			listed()
		}
	}
}

// awaitSources waits for starting sources, until ctx ends, and updates the tools.
func (f *toolset) awaitSources(ctx context.Context) {
	steps.Await(ctx, f.view(), nil)
	f.refresh()
}
