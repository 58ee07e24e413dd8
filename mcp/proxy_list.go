package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
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

// item is one entry of a joined list.
type item struct {
	upstream Upstream
	key, own string // as clients know it, and as its upstream does
	raw      json.RawMessage
}

// routes is a joined list, by which requests find their upstream.
type routes struct {
	items []*item
	byKey map[string]*item
}

// Bounds of a joined list: what one page of it holds, how long an upstream may take to list, and what one may list.
const (
	listPage     = 1000
	listTime     = 30 * time.Second
	maxListPages = 1000
	maxListItems = 100_000
)

// list answers one page of a joined list. Each page is cut of the list as it is then.
func (p *passing) list(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	given := params(req)
	from, ok := offsetOf(gjson.GetBytes(given, "cursor").String(), p.method)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is none that this server has given for " + p.method}
	}
	p.links.face.settle(ctx)
	r, err := p.links.read(ctx, p.method, given)
	if err != nil {
		return nil, err
	}
	kind := listings[p.method]
	body := []byte(`{"` + kind.field + `":[`)
	end := min(from+listPage, len(r.items))
	for i := min(from, end); i < end; i++ {
		if body[len(body)-1] != '[' {
			body = append(body, ',')
		}
		body = append(body, r.items[i].raw...)
	}
	body = append(body, ']')
	if end < len(r.items) {
		body = append(body, `,"nextCursor":"`+cursorOf(end, p.method)+`"`...)
	}
	if p.version >= statelessVersion {
		body = append(body, `,"ttlMs":0,"cacheScope":"private"`...)
	}
	return p.result(append(body, '}'))
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
func (l *links) read(ctx context.Context, method string, given json.RawMessage) (*routes, error) {
	kind := listings[method]
	upstreams := l.upstreams(kind.offers)
	lists, errs := make([][]gjson.Result, len(upstreams)), make([]error, len(upstreams))
	var all sync.WaitGroup
	for i, u := range upstreams {
		all.Go(func() { lists[i], errs[i] = l.listOf(ctx, u, method, given) })
	}
	all.Wait()
	r := &routes{byKey: map[string]*item{}}
	failed := 0
	for i, u := range upstreams {
		if errs[i] != nil {
			failed++
			l.face.server.o.Log.Warn("an upstream could not list what it offers", "source", u.Name(), "list", method, "error", errs[i])
			continue
		}
		for _, entry := range lists[i] {
			l.add(r, kind, u, entry)
		}
	}
	if failed > 0 && failed == len(upstreams) {
		return nil, errs[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes[method] = r
	return r, nil
}

// add joins one entry of an upstream's list, without what agents do not need.
func (l *links) add(r *routes, kind *listing, u Upstream, entry gjson.Result) {
	own := entry.Get(kind.key)
	if own.Type != gjson.String || len(r.items) >= maxListItems {
		return
	}
	one := &item{upstream: u, key: own.Str, own: own.Str}
	raw := with(with(json.RawMessage(entry.Raw), "_meta", nil), "icons", nil)
	if same := r.byKey[one.key]; same != nil && same.upstream.Name() == u.Name() {
		return // it lists the same twice
	} else if same != nil && kind.renamed {
		one.key = u.Name() + "_" + own.Str
		raw = with(raw, kind.key, quote(one.key))
	}
	if taken := r.byKey[one.key]; taken != nil {
		l.warnOnce(kind.field, own.Str, taken.upstream.Name(), u.Name())
		return
	}
	if one.key != one.own {
		l.warnOnce(kind.field, own.Str, r.byKey[one.own].upstream.Name(), u.Name())
	}
	one.raw = raw
	r.items = append(r.items, one)
	r.byKey[one.key] = one
}

// warnOnce tells that two upstreams have the same thing.
func (l *links) warnOnce(what, key, first, second string) {
	note := what + "\x00" + key + "\x00" + second
	l.mu.Lock()
	told := l.warned[note]
	l.warned[note] = true
	l.mu.Unlock()
	if !told {
		l.face.server.o.Log.Warn("two upstreams offer the same: it goes to the first", "kind", what, "name", key, "first", first, "second", second)
	}
}

func quote(text string) json.RawMessage {
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return quoted
}

// listOf is an upstream's whole list. One that does not know the method has nothing to list.
func (l *links) listOf(ctx context.Context, u Upstream, method string, given json.RawMessage) ([]gjson.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	kind := listings[method]
	request := with(given, "cursor", nil)
	var entries []gjson.Result
	seen := map[string]bool{}
	for range maxListPages {
		page, err := l.do(ctx, u, method, request)
		if err != nil {
			if wire, ok := err.(*jsonrpc.Error); ok && wire.Code == jsonrpc.CodeMethodNotFound { //nolint:errorlint // do gives it as it is
				return entries, nil
			}
			return nil, err
		}
		entries = append(entries, gjson.GetBytes(page, kind.field).Array()...)
		cursor := gjson.GetBytes(page, "nextCursor").String()
		if cursor == "" || seen[cursor] || len(entries) >= maxListItems {
			return entries, nil
		}
		seen[cursor] = true
		request = with(request, "cursor", quote(cursor))
	}
	return entries, nil
}

// known is a joined list as it was read last; it is read where it was not.
func (l *links) known(ctx context.Context, method string, given json.RawMessage) (*routes, error) {
	l.mu.Lock()
	r := l.routes[method]
	l.mu.Unlock()
	if r != nil {
		return r, nil
	}
	return l.read(ctx, method, onlyMeta(given))
}

// onlyMeta are the params of a request of ours that is made on behalf of a client's: who the client is, and nothing else.
func onlyMeta(given json.RawMessage) json.RawMessage {
	meta := gjson.GetBytes(given, "_meta")
	if !meta.IsObject() {
		return json.RawMessage("{}")
	}
	return with(nil, "_meta", with(json.RawMessage(meta.Raw), "progressToken", nil))
}

// forget has lists read anew at their next use.
func (l *links) forget(methods ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, method := range methods {
		delete(l.routes, method)
	}
}
