package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// toolLists are the tools that upstreams list in a client's own sessions with them. links.mu guards all of it.
type toolLists struct {
	of       map[string]*toolList // by upstream
	own      map[string][]steps.Function
	offered  *offer // what the client sees, where that is not what the face shows
	given    *offer // what the client knows of; nil: it has not asked, or was told of a change that is not known yet
	scene    *scene // that view is of
	view     *steps.View
	searched searched
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
	t.own, t.scene, t.view = own, nil, nil
}

// viewIn is what the client may use: of upstreams that have listed their tools in its own session, those. l may be nil.
func (l *links) viewIn(ctx context.Context, n *scene) *steps.View {
	if l == nil {
		return n.viewIn(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tools.own) == 0 {
		return n.viewIn(ctx)
	}
	if l.tools.scene != n {
		l.tools.scene, l.tools.view = n, n.view.Variant(l.tools.own)
	}
	if steps.Discreet(ctx) {
		return l.tools.view.Discreet()
	}
	return l.tools.view
}

// offerOf is what a client with these links sees now; nil: one without.
func (f *face) offerOf(l *links) *offer {
	f.mu.Lock()
	shared := f.offered
	f.mu.Unlock()
	if l == nil {
		return shared
	}
	view := l.viewIn(l.ctx, f.scene(f.server.now.Load()))
	if view == f.view() {
		return shared
	}
	registry := view.Registry()
	if registry == shared.of {
		return shared
	}
	l.mu.Lock()
	own := l.tools.offered
	l.mu.Unlock()
	if own == nil || own.of != registry {
		own = f.offer(view)
		l.mu.Lock()
		l.tools.offered = own
		l.mu.Unlock()
	}
	return own
}

// listTools answers the list of tools: of upstreams what they list in the client's own sessions.
func (p *passing) listTools(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if asked, ok := req.GetParams().(*sdk.ListToolsParams); ok && asked != nil && asked.Cursor != "" {
		return next(ctx, p.method, req) // which knows no cursor: a list has one page
	}
	p.links.awaitTools(ctx)
	offered := p.links.give(p.face)
	items := make([]json.RawMessage, len(offered.tools))
	for i, t := range offered.tools {
		items[i] = t.listed
	}
	return p.page(json.RawMessage("{}"), items, nil)
}

// give is what the client sees now, and takes note that it knows.
func (l *links) give(f *face) *offer {
	offered := f.offerOf(l)
	for l != nil {
		l.mu.Lock()
		l.tools.given = offered
		l.mu.Unlock()
		now := f.offerOf(l)
		if now == offered {
			break
		}
		offered = now
	}
	return offered
}

// awaitTools has upstreams that run list their tools in the client's own sessions, where they have not, and waits for them for a
// while: of what comes later the client is told. One that is idle is not started for it.
func (l *links) awaitTools(ctx context.Context) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	ready := map[string]bool{}
	for _, source := range l.face.view().Sources() {
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

// readTools reads what an upstream lists, where that is not known, or has changed. done is closed when it is known; nil: it is.
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

// readList reads a list until it has not changed meanwhile, and tells the client where it sees another one than it was given.
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
			l.face.server.o().Log.Warn("an upstream could not list its tools for a client: those that it has listed before are shown",
				"source", list.of.Name(), "error", l.face.server.told(err))
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
func (l *links) changeKnown(now *offer, ss *sdk.ServerSession) (changed bool) {
	change := func(told **offer) bool {
		changed := *told == nil || now == nil || !(*told).same(now)
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
		if ss == nil || h.client == ss {
			known, changed = true, change(&h.offered) || changed
		}
	}
	return changed || !known
}

// tellTools tells the clients that their list has changed, where they know another one.
func (l *links) tellTools() {
	now := l.face.offerOf(l)
	var told []func()
	listen := l.tellsListeners(toolsChanged)
	l.mu.Lock()
	stale := func(known **offer) bool {
		changed := *known != nil && !(*known).same(now)
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

// same reports whether clients read the same of two offers.
func (o *offer) same(as *offer) bool {
	return o == as || slices.EqualFunc(o.tools, as.tools, func(a, b *tool) bool { return bytes.Equal(a.listed, b.listed) })
}

// callOf is what answers the call of a tool: next, or the tool itself where only this client has it.
func (p *passing) callOf(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.MethodHandler, error) {
	call, ok := req.(*sdk.CallToolRequest)
	if !ok || p.links == nil {
		return next, nil
	}
	name := call.Params.Name
	if p.face.offerOf(p.links).byName[name] == nil {
		p.links.awaitTools(ctx)
	}
	switch {
	case p.face.offerOf(p.links).byName[name] == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", name)}
	case p.face.shows(name):
		return next, nil
	}
	return func(ctx context.Context, _ string, _ sdk.Request) (sdk.Result, error) {
		return p.face.handler(name)(ctx, call)
	}, nil
}
