package proxy

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// toolLists are the tools that upstreams list in the client's own sessions. The fields are guarded by sessions.mu.
type toolLists struct {
	byUpstream map[string]*toolList // the lists by name of the upstream
	functions  map[string][]steps.Function
	change     uint64     // incremented with each change of functions
	shown      *mcp.Tools // what the client knows; nil: it has not asked, or it was notified and the new tools are not known yet
}

// toolList is the list of one upstream.
type toolList struct {
	upstream Upstream
	listed   bool          // the list was read at least once
	reading  chan struct{} // closed when the running read ends; nil: none is running
	changed  bool          // the list changed during the read
}

// relistPause is the pause before reading a list again that changed during the read.
const relistPause = 250 * time.Millisecond

// retain drops the lists of upstreams that are no longer configured.
func (t *toolLists) retain(current map[string]Upstream) {
	for name, list := range t.byUpstream {
		if list.upstream != current[name] {
			delete(t.byUpstream, name)
			t.set(name, nil)
		}
	}
}

// set replaces an upstream's functions; nil: not known.
func (t *toolLists) set(name string, functions []steps.Function) {
	original := map[string][]steps.Function{}
	for upstream, list := range t.functions {
		original[upstream] = list
	}
	if original[name] = functions; functions == nil {
		delete(original, name)
	}
	t.functions = original
	t.change++
}

// Functions implements mcp.UpstreamSessions.
func (l *sessions) Functions() (original map[string][]steps.Function, change uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tools.functions, l.tools.change
}

// CurrentTools implements mcp.UpstreamSessions. It reads the tools again after recording them, so that no change in between is missed.
func (l *sessions) CurrentTools() *mcp.Tools {
	offered := l.client.Tools()
	for {
		l.mu.Lock()
		l.tools.shown = offered
		l.mu.Unlock()
		now := l.client.Tools()
		if now == offered {
			return offered
		}
		offered = now
	}
}

// Await implements mcp.UpstreamSessions: running upstreams list their tools in the client's own sessions, unless they already have.
// Upstreams that start later are announced; idle ones are not started.
func (l *sessions) Await(ctx context.Context) {
	ready := map[string]bool{}
	for _, source := range l.client.View().Sources() {
		ready[source.Name] = source.State == steps.StateReady
	}
	var reading []<-chan struct{}
	for _, u := range l.upstreams(func(c *sdk.ServerCapabilities) bool { return c.Tools != nil }) {
		if !ready[u.Name()] {
			continue
		}
		if done := l.readTools(u, false); done != nil {
			reading = append(reading, done)
		}
	}
	for _, done := range reading {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// readTools starts reading an upstream's list, if it is not known or has changed. done is closed at the end; nil: the list is known, or
// the sessions are closed.
func (l *sessions) readTools(u Upstream, changed bool) (done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.tools.byUpstream[u.Name()]
	if list == nil || list.upstream != u {
		list = &toolList{upstream: u}
		l.tools.byUpstream[u.Name()] = list
	}
	switch {
	case l.closed || list.listed && !changed && list.reading == nil:
		return nil
	case list.reading != nil:
		list.changed = list.changed || changed
	default:
		list.reading = make(chan struct{})
		go l.readList(list)
	}
	return list.reading
}

// readList reads a list until it does not change during the read, and notifies the client if its own view has changed.
func (l *sessions) readList(list *toolList) {
	for again := true; again && l.ctx.Err() == nil; {
		functions, err := l.functionsOf(list.upstream)
		l.mu.Lock()
		isCurrent := l.tools.byUpstream[list.upstream.Name()] == list
		if err == nil && isCurrent {
			list.listed = true
			l.tools.set(list.upstream.Name(), functions)
		}
		if again = list.changed && isCurrent; again {
			list.changed = false
		} else {
			close(list.reading)
			list.reading = nil
		}
		l.mu.Unlock()
		if err != nil {
			l.client.Log().Warn("an upstream could not list its tools for a client: those that it has listed before are shown",
				"source", list.upstream.Name(), "error", l.client.ClientError(err))
		}
		if again {
			select {
			case <-time.After(relistPause):
			case <-l.ctx.Done():
			}
		}
	}
	l.notifyTools()
}

// functionsOf returns the tools that an upstream lists in the client's session.
func (l *sessions) functionsOf(u Upstream) ([]steps.Function, error) {
	ctx, cancel := context.WithTimeout(l.ctx, listTime)
	defer cancel()
	session, err := l.session(ctx, u)
	if err != nil {
		return nil, err
	}
	return session.Functions(ctx)
}

const toolsChanged = "notifications/tools/list_changed"

// markShown records that a notification of changed tools goes to the client with session ss; nil: to all clients. now are the tools after
// the change; nil: not known yet. It reports whether the notification is needed: one of these clients did not know now, or the clients
// are notified as listeners and none of them is a listener of these sessions.
func (l *sessions) markShown(now *mcp.Tools, ss *sdk.ServerSession) (changed bool) {
	change := func(shown **mcp.Tools) bool {
		changed := *shown == nil || now == nil || !(*shown).Same(now)
		if *shown != nil || ss != nil { // a change for all is not recorded for a client that knows no tools
			*shown = now
		}
		return changed
	}
	listen := l.goesToListeners(toolsChanged)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !listen {
		return change(&l.tools.shown)
	}
	known := false
	for h := range l.listeners {
		if ss == nil || h.session == ss {
			known, changed = true, change(&h.known) || changed
		}
	}
	return changed || !known
}

// notifyTools notifies the clients whose list of tools has changed.
func (l *sessions) notifyTools() {
	now := l.client.Tools()
	var notify []func()
	listen := l.goesToListeners(toolsChanged)
	l.mu.Lock()
	stale := func(known **mcp.Tools) bool {
		changed := *known != nil && !(*known).Same(now)
		if changed {
			*known = now
		}
		return changed
	}
	if !listen && stale(&l.tools.shown) {
		notify = append(notify, func() { l.deliver(l.ctx, toolsChanged, json.RawMessage("{}")) })
	}
	for h := range l.listeners {
		if listen && stale(&h.known) && h.wants(toolsChanged, "") {
			notify = append(notify, func() { h.send(toolsChanged, json.RawMessage("{}")) })
		}
	}
	l.mu.Unlock()
	for _, send := range notify {
		send()
	}
}
