package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// listing is a list that is joined over upstreams.
type listing struct {
	field, key string // the member that holds the items, and the one by which they are known
	offers     func(*sdk.ServerCapabilities) bool
	renamed    bool // an item whose key is taken gets another; else it is left out
}

func hasResources(c *sdk.ServerCapabilities) bool   { return c.Resources != nil }
func hasPrompts(c *sdk.ServerCapabilities) bool     { return c.Prompts != nil }
func hasCompletions(c *sdk.ServerCapabilities) bool { return c.Completions != nil }

var listings = map[string]*listing{
	"resources/list":           {field: "resources", key: "uri", offers: hasResources},
	"resources/templates/list": {field: "resourceTemplates", key: "uriTemplate", offers: hasResources},
	"prompts/list":             {field: "prompts", key: "name", offers: hasPrompts, renamed: true},
}

// routes tell which upstream has what of a joined list. Of a list of one upstream they hold only what has another key there.
type routes struct {
	holder map[string]Upstream // by the key that clients know
	own    map[string]string   // the key that the upstream has, if it differs
	keys   []string            // in the order of the list; of templates only
}

func newRoutes() *routes { return &routes{holder: map[string]Upstream{}, own: map[string]string{}} }

// ownKey is the key that the upstream has.
func (r *routes) ownKey(key string) string {
	if own, other := r.own[key]; other {
		return own
	}
	return key
}

// pages are a joined list that is kept while a client reads it page by page.
type pages struct {
	items []json.RawMessage
	gone  *time.Timer
}

// Bounds of a joined list: what one page of it holds, how long its pages are kept, how long an upstream may take to list, and
// what one may list.
const (
	listPage     = 1000
	pagesTime    = 10 * time.Second
	listTime     = 30 * time.Second
	maxListPages = 1000
	maxListItems = 100_000
)

// list answers one page of a list: of the one upstream that has it, else of what all have.
func (p *passing) list(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	given, l := params(req), p.links
	l.settle(ctx)
	own, err := p.own(ctx, req, next)
	if err != nil {
		return nil, err
	}
	if upstreams := l.upstreams(listings[p.method].offers); len(upstreams) == 1 {
		return p.listOne(ctx, upstreams[0], given, own)
	}
	from, ok := offsetOf(gjson.GetBytes(given, "cursor").String(), p.method)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is none that this server has given for " + p.method}
	}
	items := l.kept(p.method)
	if from == 0 || items == nil {
		if _, items, err = l.read(ctx, p.method, given); err != nil {
			return nil, err
		}
		items = append(own, items...)
	}
	end := min(from+listPage, len(items))
	var cursor json.RawMessage
	if end < len(items) {
		cursor = quote(cursorOf(end, p.method))
		l.keep(p.method, items)
	}
	return raw.Page(p.version, listings[p.method].field, json.RawMessage("{}"), items[min(from, end):end], cursor)
}

// own are the toolset's own prompts, which stand before all others.
func (p *passing) own(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (items []json.RawMessage, err error) {
	if asked, ok := req.GetParams().(*sdk.ListPromptsParams); p.method != "prompts/list" || ok && asked != nil && asked.Cursor != "" {
		return nil, nil
	}
	result, err := next(ctx, p.method, req)
	if err != nil {
		return nil, err
	}
	if list, ok := result.(*sdk.ListPromptsResult); ok {
		for _, one := range list.Prompts {
			item, err := json.Marshal(one)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
	}
	return items, nil
}

// listOne answers a page of the one upstream that has the list, under its own cursors, after items.
func (p *passing) listOne(ctx context.Context, u Upstream, given json.RawMessage, items []json.RawMessage) (sdk.Result, error) {
	l, kind := p.links, listings[p.method]
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	page, err := l.ofUpstream(ctx, u, p.method, given)
	if missing(err) {
		return raw.Page(p.version, listings[p.method].field, json.RawMessage("{}"), items, nil)
	}
	if err != nil {
		return nil, err
	}
	gjson.GetBytes(page, kind.field).ForEach(func(_, entry gjson.Result) bool {
		if own := entry.Get(kind.key); own.Type == gjson.String {
			items = append(items, l.shownItem(entry))
			l.learn(p.method, u, own.Str)
		}
		return true
	})
	rest := raw.With(raw.With(page, kind.field, nil), "nextCursor", nil)
	var next json.RawMessage
	if cursor := gjson.GetBytes(page, "nextCursor"); cursor.Type == gjson.String && cursor.Str != "" {
		next = json.RawMessage(cursor.Raw)
	}
	return raw.Page(p.version, listings[p.method].field, l.client.Scrubber().JSON(rest), items, next)
}

// shownItem is an entry of a list without secrets, and without what agents do not need.
func (l *links) shownItem(entry gjson.Result) json.RawMessage {
	return l.client.Scrubber().JSON(raw.With(raw.With(json.RawMessage(entry.Raw), "_meta", nil), "icons", nil))
}

// learn takes note of an entry that clients know by another key than the one upstream that has the list.
func (l *links) learn(method string, u Upstream, own string) {
	key := l.client.Scrubber().Text(own)
	if key == own {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.routes[method]
	if r == nil {
		r = newRoutes()
		l.routes[method] = r
	}
	if len(r.own) < maxListItems {
		r.holder[key], r.own[key] = u, strings.Clone(own)
	}
}

// ownKey is the key that an upstream has for what clients know by key.
func (l *links) ownKey(method string, u Upstream, key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.routes[method]; r != nil && r.holder[key] == u {
		return r.ownKey(key)
	}
	return key
}

// keep keeps a list for the pages to come.
func (l *links) keep(method string, items []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.pages[method]; old != nil {
		old.gone.Stop()
	}
	now := &pages{items: items}
	now.gone = time.AfterFunc(pagesTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pages[method] == now {
			delete(l.pages, method)
		}
	})
	l.pages[method] = now
}

// kept is a list whose pages a client reads; nil: there is none.
func (l *links) kept(method string) []json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.pages[method]; now != nil {
		return now.items
	}
	return nil
}

func cursorOf(offset int, method string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset) + " " + method))
}

func offsetOf(cursor, method string) (int, bool) {
	if cursor == "" {
		return 0, true
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, false
	}
	number, of, _ := strings.Cut(string(text), " ")
	offset, err := strconv.Atoi(number)
	return offset, err == nil && offset > 0 && of == method
}

// read lists what all upstreams have, side by side. One that fails is left out while another answers.
func (l *links) read(ctx context.Context, method string, given json.RawMessage) (*routes, []json.RawMessage, error) {
	kind := listings[method]
	upstreams := l.upstreams(kind.offers)
	lists, errs := make([][]gjson.Result, len(upstreams)), make([]error, len(upstreams))
	var all sync.WaitGroup
	for i, u := range upstreams {
		all.Go(func() { lists[i], errs[i] = l.listOf(ctx, u, method, given) })
	}
	all.Wait()
	j := &joining{links: l, kind: kind, routes: newRoutes()}
	failed := 0
	for i, u := range upstreams {
		if errs[i] != nil {
			failed++
			l.client.Log().Warn("an upstream could not list what it offers", "source", u.Name(), "list", method, "error", l.client.Told(errs[i]))
			continue
		}
		for _, entry := range lists[i] {
			j.add(u, entry)
		}
	}
	if failed > 0 && failed == len(upstreams) {
		return nil, nil, l.failed(ctx, upstreams[0], errs[0])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes[method] = j.routes
	return j.routes, j.items, nil
}

// joining is a list that is being joined.
type joining struct {
	links  *links
	kind   *listing
	routes *routes
	items  []json.RawMessage
}

// add joins one entry of an upstream's list.
func (j *joining) add(u Upstream, entry gjson.Result) {
	own := entry.Get(j.kind.key)
	if own.Type != gjson.String || len(j.items) >= maxListItems {
		return
	}
	r, item := j.routes, j.links.shownItem(entry)
	plain := j.links.client.Scrubber().Text(own.Str)
	key, first := plain, r.holder[plain]
	if first != nil && first.Name() == u.Name() {
		return // it lists the same twice
	}
	if first != nil && j.kind.renamed {
		key = u.Name() + "_" + plain
		item = raw.With(item, j.kind.key, quote(key))
	}
	if first != nil {
		j.links.warnOnce(j.kind.field, plain, first.Name(), u.Name())
	}
	if r.holder[key] != nil {
		return
	}
	key = strings.Clone(key) // not a part of the whole list
	r.holder[key] = u
	if key != own.Str {
		r.own[key] = strings.Clone(own.Str)
	}
	if j.kind.field == "resourceTemplates" {
		r.keys = append(r.keys, key)
	}
	j.items = append(j.items, item)
}

// warnOnce tells that two upstreams have the same thing.
func (l *links) warnOnce(what, key, first, second string) {
	note := what + "\x00" + key + "\x00" + second
	l.mu.Lock()
	told := l.warned[note]
	l.warned[note] = true
	l.mu.Unlock()
	if !told {
		l.client.Log().Warn("two upstreams offer the same: it goes to the first", "kind", what, "name", key, "first", first, "second", second)
	}
}

func quote(text string) json.RawMessage {
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return quoted
}

// listOf is an upstream's whole list. One that does not know the method has nothing to list. The error is as it is.
func (l *links) listOf(ctx context.Context, u Upstream, method string, given json.RawMessage) ([]gjson.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	kind := listings[method]
	request := raw.With(given, "cursor", nil)
	var entries []gjson.Result
	seen := map[string]bool{}
	for range maxListPages {
		page, err := l.request(ctx, u, method, request)
		if missing(err) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, gjson.GetBytes(page, kind.field).Array()...)
		cursor := gjson.GetBytes(page, "nextCursor").String()
		if cursor == "" || seen[cursor] || len(entries) >= maxListItems {
			return entries, nil
		}
		seen[cursor] = true
		request = raw.With(request, "cursor", quote(cursor))
	}
	return entries, nil
}

// missing tells of an error whether the upstream does not know the method.
func missing(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && wire.Code == jsonrpc.CodeMethodNotFound
}

// known is a joined list as it was read last; it is read if it was not.
func (l *links) known(ctx context.Context, method string, given json.RawMessage) (*routes, error) {
	l.mu.Lock()
	r := l.routes[method]
	l.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, _, err := l.read(ctx, method, onlyMeta(given))
	return r, err
}

// onlyMeta are the params of a request of ours that is made on behalf of a client's: who the client is, and nothing else.
func onlyMeta(given json.RawMessage) json.RawMessage {
	meta := gjson.GetBytes(given, "_meta")
	if !meta.IsObject() {
		return json.RawMessage("{}")
	}
	return raw.With(nil, "_meta", raw.With(json.RawMessage(meta.Raw), "progressToken", nil))
}

// forget has lists read again at their next use.
func (l *links) forget(methods ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, method := range methods {
		delete(l.routes, method)
		delete(l.pages, method)
	}
}
