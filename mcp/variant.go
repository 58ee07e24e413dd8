package mcp

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/steps"
)

// Tools are what a client sees of one registry.
type Tools struct {
	of     *steps.Registry
	tools  []*tool // sorted by name
	byName map[string]*tool
}

// Same reports whether clients read the same of two.
func (t *Tools) Same(as *Tools) bool {
	return t == as || slices.EqualFunc(t.tools, as.tools, func(a, b *tool) bool { return bytes.Equal(a.listed, b.listed) })
}

// variant is what one client sees, or all without sessions, if servers list other tools in its own sessions with them.
type variant struct {
	toolset  *toolset
	links    Links
	searched searched

	mu       sync.Mutex
	snapshot *viewSnapshot // that view is of
	change   uint64        // of the links' functions
	view     *steps.View
	offered  *Tools
}

// viewIn is what the client may use: of upstreams that have listed their tools in its own session, those.
func (v *variant) viewIn(ctx context.Context, n *viewSnapshot) *steps.View {
	own, change := v.links.Functions()
	if len(own) == 0 {
		return n.viewIn(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snapshot != n || v.change != change {
		v.snapshot, v.change, v.view = n, change, n.view.Variant(own)
	}
	if steps.Discreet(ctx) {
		return v.view.Discreet()
	}
	return v.view
}

// offerOf is what a client sees now; v nil: one that sees what all do.
func (f *toolset) offerOf(v *variant) *Tools {
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
	if registry == shared.of {
		return shared
	}
	v.mu.Lock()
	own := v.offered
	v.mu.Unlock()
	if own == nil || own.of != registry {
		own = f.offer(view)
		v.mu.Lock()
		v.offered = own
		v.mu.Unlock()
	}
	return own
}

// close ends the client's sessions with upstreams. v may be nil.
func (v *variant) close() {
	if v != nil {
		v.links.Close()
	}
}
