package proxy

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// toolLists are the tools that upstreams list in a client's own sessions with them. links.mu guards all of it.
type toolLists struct {
	of     map[string]*toolList // by upstream
	own    map[string][]steps.Function
	change uint64     // another number for each own
	given  *mcp.Tools // what the client knows of; nil: it has not asked, or was told of a change that is not known yet
}

// toolList is what one upstream lists.
type toolList struct {
	of      Upstream
	read    bool          // it was listed
	reading chan struct{} // closed when the list that is being read is there, or is not; nil: none is read
	again   bool          // it has changed while it was read
}

// relistPause is how long a list is left alone that has changed while it was read.
const relistPause = 250 * time.Millisecond

// keep forgets the lists of upstreams that are not served any more.
func (t *toolLists) keep(stays map[string]Upstream) {
	for name, list := range t.of {
		if list.of != stays[name] {
			delete(t.of, name)
			t.set(name, nil)
		}
	}
}

// set changes what an upstream lists; nil: nothing is known of it.
func (t *toolLists) set(name string, functions []steps.Function) {
	own := map[string][]steps.Function{}
	for of, list := range t.own {
		own[of] = list
	}
	if own[name] = functions; functions == nil {
		delete(own, name)
	}
	t.own = own
	t.change++
}

// Functions implements mcp.Links.
func (l *links) Functions() (own map[string][]steps.Function, change uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tools.own, l.tools.change
}

// listWait is how long a list of tools waits for upstreams that list theirs.
const listWait = 5 * time.Second

// Give implements mcp.Links.
func (l *links) Give() *mcp.Tools {
	offered := l.client.Tools()
	for {
		l.mu.Lock()
		l.tools.given = offered
		l.mu.Unlock()
		now := l.client.Tools()
		if now == offered {
			return offered
		}
		offered = now
	}
}

// Await implements mcp.Links: upstreams that run list their tools in the client's own sessions, if they have not. One that comes
// later is told of, and one that is idle is not started for it.
func (l *links) Await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
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

// readTools reads what an upstream lists, if that is not known, or has changed. done is closed when it is known; nil: it is.
func (l *links) readTools(u Upstream, changed bool) (done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.tools.of[u.Name()]
	if list == nil || list.of != u {
		list = &toolList{of: u}
		l.tools.of[u.Name()] = list
	}
	switch {
	case l.closed || list.read && !changed && list.reading == nil:
		return nil
	case list.reading != nil:
		list.again = list.again || changed
	default:
		list.reading = make(chan struct{})
		go l.readList(list)
	}
	return list.reading
}

// readList reads a list until it has not changed meanwhile, and tells the client if its own has changed.
func (l *links) readList(list *toolList) {
	for again := true; again && l.ctx.Err() == nil; {
		functions, err := l.listedBy(list.of)
		l.mu.Lock()
		served := l.tools.of[list.of.Name()] == list
		if err == nil && served {
			list.read = true
			l.tools.set(list.of.Name(), functions)
		}
		if again = list.again && served; again {
			list.again = false
		} else {
			close(list.reading)
			list.reading = nil
		}
		l.mu.Unlock()
		if err != nil {
			l.client.Log().Warn("an upstream could not list its tools for a client: those that it has listed before are shown",
				"source", list.of.Name(), "error", l.client.Told(err))
		}
		if again {
			select {
			case <-time.After(relistPause):
			case <-l.ctx.Done():
			}
		}
	}
	l.tellTools()
}

// listedBy are the tools that an upstream lists in the client's session.
func (l *links) listedBy(u Upstream) ([]steps.Function, error) {
	ctx, cancel := context.WithTimeout(l.ctx, listTime)
	defer cancel()
	link, err := l.link(ctx, u)
	if err != nil {
		return nil, err
	}
	return link.Functions(ctx)
}

const toolsChanged = "notifications/tools/list_changed"

// changeKnown takes note that clients are told of what they see now, and reports whether any of them was not: the client whose
// session ss is, nil: all of these links. now nil: they are told of what is not known yet.
func (l *links) changeKnown(now *mcp.Tools, ss *sdk.ServerSession) (changed bool) {
	change := func(told **mcp.Tools) bool {
		changed := *told == nil || now == nil || !(*told).Same(now)
		if *told != nil || ss != nil {
			*told = now
		}
		return changed
	}
	listen := l.tellsListeners(toolsChanged)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !listen {
		return change(&l.tools.given)
	}
	known := false
	for h := range l.listeners {
		if ss == nil || h.session == ss {
			known, changed = true, change(&h.offered) || changed
		}
	}
	return changed || !known
}

// tellTools tells the clients that their list has changed, if it has.
func (l *links) tellTools() {
	now := l.client.Tools()
	var told []func()
	listen := l.tellsListeners(toolsChanged)
	l.mu.Lock()
	stale := func(known **mcp.Tools) bool {
		changed := *known != nil && !(*known).Same(now)
		if changed {
			*known = now
		}
		return changed
	}
	if !listen && stale(&l.tools.given) {
		told = append(told, func() { l.deliver(l.ctx, toolsChanged, json.RawMessage("{}")) })
	}
	for h := range l.listeners {
		if listen && stale(&h.offered) && h.wants(toolsChanged, "") {
			told = append(told, func() { h.send(toolsChanged, json.RawMessage("{}")) })
		}
	}
	l.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}
