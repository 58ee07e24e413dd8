package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// readAll lists the items of all upstreams, concurrently. Upstreams that fail are left out unless all fail.
func (l *sessions) readAll(ctx context.Context, method string, reqParams json.RawMessage) (*routes, []json.RawMessage, error) {
	kind := listKinds[method]
	upstreams := l.upstreams(kind.match)
	lists, errs := make([][]gjson.Result, len(upstreams)), make([]error, len(upstreams))
	var all sync.WaitGroup
	for i, u := range upstreams {
		all.Go(func() { lists[i], errs[i] = l.listAll(ctx, u, method, reqParams) })
	}
	all.Wait()
	j := &joiner{sessions: l, kind: kind, routes: newRoutes()}
	failed := 0
	for i, u := range upstreams {
		if errs[i] != nil {
			failed++
			l.client.Log().Warn("an upstream could not list what it offers",
				"source", u.Name(), "list", method, "error", l.client.ClientError(errs[i]))
			continue
		}
		for _, entry := range lists[i] {
			j.add(u, entry)
		}
	}
	if failed > 0 && failed == len(upstreams) {
		return nil, nil, l.clientError(ctx, upstreams[0], errs[0])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes[method] = j.routes
	return j.routes, j.items, nil
}

// joiner joins the lists of upstreams.
type joiner struct {
	sessions *sessions
	kind     *listKind
	routes   *routes
	items    []json.RawMessage
}

// add adds one item of an upstream.
func (j *joiner) add(u Upstream, entry gjson.Result) {
	if len(j.items) >= maxListItems {
		return
	}
	original, r, item := entry.Get(j.kind.key), j.routes, j.sessions.shownItem(u, j.kind, entry)
	if item == nil {
		return
	}
	plain := j.sessions.client.Scrubber().Text(original.Str)
	key, first := plain, r.upstream[plain]
	if first != nil && first.Name() == u.Name() {
		return // the upstream lists it twice
	}
	if first != nil && j.kind.rename {
		key = u.Name() + "_" + plain
		item = raw.With(item, j.kind.key, quote(key))
	}
	if first != nil {
		j.sessions.warnOnce(j.kind.field, plain, first.Name(), u.Name())
	}
	if r.upstream[key] != nil {
		return
	}
	key = strings.Clone(key) // do not retain the whole list
	r.upstream[key] = u
	if key != original.Str {
		r.upstreamKey[key] = strings.Clone(original.Str)
	}
	if j.kind.field == "resourceTemplates" {
		r.keys = append(r.keys, key)
	}
	j.items = append(j.items, item)
}

// shownItem returns an item as strict clients accept it, without secrets, and without members that agents do not need. It returns nil
// for an item that cannot be mended, which is logged once: such clients would refuse the whole list.
func (l *sessions) shownItem(u Upstream, kind *listKind, entry gjson.Result) json.RawMessage {
	item := json.RawMessage(entry.Raw)
	if entry.IsObject() {
		item = raw.With(raw.With(item, "_meta", nil), "icons", nil)
		if key := entry.Get(kind.key); raw.Text(key) != nil && raw.Text(entry.Get("name")) == nil {
			item = raw.With(item, "name", json.RawMessage(key.Raw)) // a resource has its address for a name
		}
	}
	mended := kind.rule(gjson.ParseBytes(item))
	if mended == nil {
		l.warnLeftOut(u, kind, entry.Raw)
		return nil
	}
	return l.client.Scrubber().JSON(mended)
}

// warnLeftOut logs once that an upstream's item is left out of a list.
func (l *sessions) warnLeftOut(u Upstream, kind *listKind, item string) {
	if l.firstWarning(kind.field, u.Name(), item) {
		const shown = 200
		l.client.Log().Warn("an item without "+kind.key+" is left out of a list", "source", u.Name(), "list", kind.field,
			"item", fault.Clip(l.client.Scrubber().Text(item), shown))
	}
}

// warnOnce logs once that two upstreams have the same item.
func (l *sessions) warnOnce(what, key, first, second string) {
	if l.firstWarning(what, key, second) {
		l.client.Log().Warn("two upstreams offer an item of the same name: requests for it go to the first",
			"kind", what, "name", key, "first", first, "second", second)
	}
}

// firstWarning reports whether a warning about these was not logged yet, and records that it is.
func (l *sessions) firstWarning(about ...string) bool {
	key := strings.Join(about, "\x00")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.warned[key] || len(l.warned) >= maxListItems {
		return false
	}
	l.warned[strings.Clone(key)] = true
	return true
}
