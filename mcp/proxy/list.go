package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// listKind is a list that is joined over upstreams.
type listKind struct {
	field, key string // the member with the items, and the member that identifies each item
	match      func(*sdk.ServerCapabilities) bool
	rule       raw.Rule // what clients accept as an item
	rename     bool     // an item with a duplicate key is renamed, not dropped
}

func hasResources(c *sdk.ServerCapabilities) bool   { return c.Resources != nil }
func hasPrompts(c *sdk.ServerCapabilities) bool     { return c.Prompts != nil }
func hasCompletions(c *sdk.ServerCapabilities) bool { return c.Completions != nil }

var listKinds = map[string]*listKind{
	"resources/list":           {field: "resources", key: "uri", match: hasResources, rule: raw.Resource},
	"resources/templates/list": {field: "resourceTemplates", key: "uriTemplate", match: hasResources, rule: raw.ResourceTemplate},
	"prompts/list":             {field: "prompts", key: "name", match: hasPrompts, rule: raw.Prompt, rename: true},
}

// routes map the items of a joined list to upstreams. For a list of a single upstream they contain only the keys that differ from the
// upstream's.
type routes struct {
	upstream    map[string]Upstream // the upstreams by the client's key
	upstreamKey map[string]string   // the upstreams' keys by the client's key, if they differ
	keys        []string            // the clients' keys in the order of the list; only in the list of resource templates
}

func newRoutes() *routes {
	return &routes{upstream: map[string]Upstream{}, upstreamKey: map[string]string{}}
}

// originalKey returns the upstream's key for a client's key.
func (r *routes) originalKey(key string) string {
	if original, other := r.upstreamKey[key]; other {
		return original
	}
	return key
}

// Limits of a joined list: items per page, how long its pages are kept, and how long and how much an upstream may list.
const (
	listPage     = 1000
	pagesTime    = 10 * time.Second
	listTime     = 30 * time.Second
	maxListPages = 1000
	maxListItems = 100_000
)

// list answers one page of a list: of the upstream's list if only one upstream has one, else of the joined list.
func (p *clientRequest) list(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	reqParams, l := params(req), p.sessions
	l.awaitStart(ctx)
	original, err := p.localPrompts(ctx, req, next)
	if err != nil {
		return nil, err
	}
	if upstreams := l.upstreams(listKinds[p.method].match); len(upstreams) == 1 {
		return p.listOne(ctx, upstreams[0], reqParams, original)
	}
	from, ok := offsetOf(gjson.GetBytes(reqParams, "cursor").String(), p.method)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this server did not give this cursor for " + p.method}
	}
	items := l.storedItems(p.method)
	if from == 0 || items == nil {
		if _, items, err = l.readAll(ctx, p.method, reqParams); err != nil {
			return nil, err
		}
		items = append(original, items...)
	}
	end := min(from+listPage, len(items))
	var cursor json.RawMessage
	if end < len(items) {
		cursor = quote(cursorOf(end, p.method))
		l.storeList(p.method, items)
	}
	return raw.Page(p.version, listKinds[p.method].field, json.RawMessage("{}"), items[min(from, end):end], cursor)
}

// localPrompts returns the prompts of onecall itself, which come first on the first page of prompts/list. It returns nil for other pages
// and lists.
func (p *clientRequest) localPrompts(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (items []json.RawMessage, err error) {
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

// listOne answers a page of the only upstream that has the list, and passes on this upstream's cursors. The page begins with items.
func (p *clientRequest) listOne(ctx context.Context, u Upstream, reqParams json.RawMessage, items []json.RawMessage) (sdk.Result, error) {
	l, kind := p.sessions, listKinds[p.method]
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	page, err := l.doRaw(ctx, u, p.method, reqParams)
	if methodNotFound(err) {
		return raw.Page(p.version, listKinds[p.method].field, json.RawMessage("{}"), items, nil)
	}
	if err != nil {
		return nil, err
	}
	gjson.GetBytes(page, kind.field).ForEach(func(_, entry gjson.Result) bool {
		if item := l.shownItem(u, kind, entry); item != nil {
			items = append(items, item)
			l.learn(p.method, u, entry.Get(kind.key).Str)
		}
		return true
	})
	rest := raw.With(raw.With(page, kind.field, nil), "nextCursor", nil)
	if meta := gjson.GetBytes(rest, "_meta"); meta.Exists() && raw.Meta(meta) == nil {
		rest = raw.With(rest, "_meta", nil)
	}
	var next json.RawMessage
	if cursor := gjson.GetBytes(page, "nextCursor"); cursor.Type == gjson.String && cursor.Str != "" {
		next = json.RawMessage(cursor.Raw)
	}
	return raw.Page(p.version, listKinds[p.method].field, l.client.Scrubber().JSON(rest), items, next)
}

// learn records the upstream's key of an item in a list of a single upstream, if clients see another key.
func (l *sessions) learn(method string, u Upstream, original string) {
	key := l.client.Scrubber().Text(original)
	if key == original {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.routes[method]
	if r == nil {
		r = newRoutes()
		l.routes[method] = r
	}
	if len(r.upstreamKey) < maxListItems {
		r.upstream[key], r.upstreamKey[key] = u, strings.Clone(original)
	}
}

// upstreamKey returns the upstream's key for a client's key; the same key if no list has another.
func (l *sessions) upstreamKey(method string, u Upstream, key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.routes[method]; r != nil && r.upstream[key] == u {
		return r.originalKey(key)
	}
	return key
}

func quote(text string) json.RawMessage {
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return quoted
}

// listAll returns an upstream's whole list, empty if the upstream does not know the method. Errors are as request returns them.
func (l *sessions) listAll(ctx context.Context, u Upstream, method string, reqParams json.RawMessage) ([]gjson.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	kind := listKinds[method]
	request := raw.With(reqParams, "cursor", nil)
	var entries []gjson.Result
	seen := map[string]bool{}
	for range maxListPages {
		page, err := l.request(ctx, u, method, request)
		if methodNotFound(err) {
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

// methodNotFound reports whether the upstream does not know the method.
func methodNotFound(err error) bool {
	var rpcErr *jsonrpc.Error
	return errors.As(err, &rpcErr) && rpcErr.Code == jsonrpc.CodeMethodNotFound
}

// knownRoutes returns the routes of a joined list. It reads the list if that is necessary.
func (l *sessions) knownRoutes(ctx context.Context, method string, reqParams json.RawMessage) (*routes, error) {
	l.mu.Lock()
	r := l.routes[method]
	l.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, _, err := l.readAll(ctx, method, onlyMeta(reqParams))
	return r, err
}

// onlyMeta returns params with only the _meta of reqParams, without the progress token. They are for requests that onecall makes on its own
// to answer a client's request.
func onlyMeta(reqParams json.RawMessage) json.RawMessage {
	meta := gjson.GetBytes(reqParams, "_meta")
	if !meta.IsObject() {
		return json.RawMessage("{}")
	}
	return raw.With(nil, "_meta", raw.With(json.RawMessage(meta.Raw), "progressToken", nil))
}

// forget makes lists be read again at their next use.
func (l *sessions) forget(methods ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, method := range methods {
		delete(l.routes, method)
		delete(l.storedLists, method)
	}
}
