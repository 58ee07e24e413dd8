package mcp

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Tools are the tools that a client sees, for one registry.
type Tools struct {
	registry *steps.Registry
	tools    []*tool          // sorted by name
	byName   map[string]*tool // with those that are not listed: the functions of dispatchers by their flat names, and approval
	approval *tool            // the tool of the approval app; nil: no call needs approval
}

// Same reports whether clients read the same list.
func (t *Tools) Same(as *Tools) bool {
	return t == as || slices.EqualFunc(t.tools, as.tools, func(a, b *tool) bool {
		return bytes.Equal(a.listed, b.listed) && bytes.Equal(a.forApps, b.forApps)
	})
}

// unknown says that there is no such tool. If the name is a function's, or resembles one that the caller may use, it says how to call it.
func (t *Tools) unknown(name string) string {
	const alike, nearest = 100, 3
	text := fmt.Sprintf("unknown tool %q", fault.Clip(name, 256))
	entry, err := t.registry.Resolve(name)
	if err == nil {
		return text + ": it is a function: " + byChain(entry.Spec().Name)
	}
	var names []string
	for _, one := range t.tools {
		names = append(names, one.Name)
	}
	if similar := fault.Nearest(name, fault.Alike(name, names, alike), nearest); len(similar) > 0 {
		text += "; tools with such names: " + strings.Join(similar, ", ")
	}
	if f, ok := fault.As(err); ok && len(f.Nearest) > 0 {
		text += "; functions with such names: " + strings.Join(f.Nearest, ", ") + ": " + byChain(f.Nearest[0])
	}
	return text
}

// byChain says how a function is called that is no tool.
func byChain(function string) string {
	return `send {"steps":[{"fn":` + string(marshal(function)) + `,"args":{…}}]} to the tool chain`
}

// clientView is the view of one client, or of all clients without sessions. It exists on surfaces that pass upstreams through,
// because these may list other tools in a client's own sessions.
type clientView struct {
	toolset     *toolset
	upstreams   UpstreamSessions
	searchIndex searchIndex

	mu         sync.Mutex
	snapshot   *viewSnapshot // the snapshot that view was made from
	change     uint64        // the number of the last change of the functions in view, see UpstreamSessions.Functions
	view       *steps.View
	offered    *Tools
	listsUntil time.Time // when lists stop waiting for the client's own sessions; zero: there was no list
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
