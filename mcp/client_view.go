package mcp

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/steps"
)

// Tools are the tools that a client sees, for one registry.
type Tools struct {
	registry *steps.Registry
	tools    []*tool // sorted by name
	byName   map[string]*tool
}

// Same reports whether clients read the same list.
func (t *Tools) Same(as *Tools) bool {
	return t == as || slices.EqualFunc(t.tools, as.tools, func(a, b *tool) bool { return bytes.Equal(a.listed, b.listed) })
}

// clientView is the view of one client, or of all clients without sessions. It exists on surfaces that pass upstreams through,
// because these may list other tools in a client's own sessions.
type clientView struct {
	toolset     *toolset
	upstreams   UpstreamSessions
	searchIndex searchIndex

	mu       sync.Mutex
	snapshot *viewSnapshot // the snapshot that view was made from
	change   uint64        // the number of the last change of the functions in view, see UpstreamSessions.Functions
	view     *steps.View
	offered  *Tools
}

// viewIn returns what the client may use, with the tools that upstreams list in its own sessions.
func (v *clientView) viewIn(ctx context.Context, n *viewSnapshot) *steps.View {
	byUpstream, change := v.upstreams.Functions()
	if len(byUpstream) == 0 {
		return n.viewIn(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snapshot != n || v.change != change {
		v.snapshot, v.change, v.view = n, change, n.view.Variant(byUpstream)
	}
	if steps.HidesCauses(ctx) {
		return v.view.WithoutCauses()
	}
	return v.view
}

// offerOf returns what a client sees now. A nil v sees what all clients see.
func (f *toolset) offerOf(v *clientView) *Tools {
	f.mu.Lock()
	shared := f.offered
	f.mu.Unlock()
	if v == nil {
		return shared
	}
	view := v.viewIn(context.Background(), f.snapshotOf(f.server.now.Load()))
	if view == f.view() {
		return shared
	}
	registry := view.Registry()
	if registry == shared.registry {
		return shared
	}
	v.mu.Lock()
	tools := v.offered
	v.mu.Unlock()
	if tools == nil || tools.registry != registry {
		tools = f.offer(view)
		v.mu.Lock()
		v.offered = tools
		v.mu.Unlock()
	}
	return tools
}

// close ends the client's sessions with upstreams. v may be nil.
func (v *clientView) close() {
	if v != nil {
		v.upstreams.Close()
	}
}
