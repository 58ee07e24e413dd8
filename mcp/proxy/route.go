package proxy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/yosida95/uritemplate/v3"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// codeNotFound is that of a resource that is not there, up to MCP 2025-11-25. Later versions have invalid params.
const codeNotFound = -32002

// read hands on the reading of a resource.
func (p *passing) read(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	given := params(req)
	body, _, err := p.first(ctx, given, p.links.upstreams(hasResources))
	if err != nil {
		return nil, err
	}
	return raw.Result(p.version, p.method, body)
}

// first asks the upstreams that may have a resource, in turn, until one does not say that it has not.
func (p *passing) first(ctx context.Context, given json.RawMessage, upstreams []Upstream) (json.RawMessage, Upstream, error) {
	uri := gjson.GetBytes(given, "uri").String()
	holders := p.links.holders(ctx, uri, given, upstreams)
	var failed error // that of an upstream which may have it, and could not say
	for _, u := range holders {
		asked := given
		if own := p.links.ownKey("resources/list", u, uri); own != uri {
			asked = raw.With(given, "uri", quote(own))
		}
		body, err := p.links.do(ctx, u, p.method, asked)
		if err == nil || len(holders) == 1 || ctx.Err() != nil {
			return body, u, err
		}
		if failed == nil && !notFound(err) {
			failed = err
		}
	}
	if failed != nil {
		return nil, nil, failed
	}
	code := int64(codeNotFound)
	if p.version >= protocol.Stateless {
		code = jsonrpc.CodeInvalidParams
	}
	return nil, nil, &jsonrpc.Error{Code: code, Message: "no such resource: list the resources and their templates to see which there are", Data: raw.With(nil, "uri", quote(uri))}
}

func notFound(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && (wire.Code == codeNotFound || wire.Code == jsonrpc.CodeInvalidParams || wire.Code == jsonrpc.CodeMethodNotFound)
}

// holders are the upstreams that may have a resource: the one that lists it, else those that have a template for it, else
// all. What cannot be listed decides nothing.
func (l *links) holders(ctx context.Context, uri string, given json.RawMessage, upstreams []Upstream) []Upstream {
	if len(upstreams) < 2 {
		return upstreams
	}
	among := map[string]bool{}
	for _, u := range upstreams {
		among[u.Name()] = true
	}
	if r, err := l.known(ctx, "resources/list", given); err == nil {
		if u := r.holder[uri]; u != nil && among[u.Name()] {
			return []Upstream{u}
		}
	}
	var holders []Upstream
	if r, err := l.known(ctx, "resources/templates/list", given); err == nil {
		found := map[string]bool{}
		for _, key := range r.keys {
			if u := r.holder[key]; among[u.Name()] && !found[u.Name()] && fits(r.ownKey(key), uri) {
				found[u.Name()] = true
				holders = append(holders, u)
			}
		}
	}
	if len(holders) == 0 {
		return upstreams
	}
	return holders
}

// maxTemplate bounds the templates (RFC 6570) that are looked at, in bytes.
const maxTemplate = 4 << 10

// fits reports whether a URI may be one of a template's.
func fits(template, uri string) bool {
	if template == uri {
		return true
	}
	if len(template) > maxTemplate {
		return false
	}
	t, err := uritemplate.New(template)
	return err == nil && t.Regexp().MatchString(uri)
}

// watch is a resource that is subscribed to.
type watch struct {
	upstream Upstream
	count    int // of clients; one that has sessions counts once
}

// subscribe hands a subscription on, and its end. Only a client with a session has one in this form.
func (p *passing) subscribe(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if p.links.owner == nil || p.version >= protocol.Stateless {
		return next(ctx, p.method, req) // which refuses it
	}
	given := params(req)
	uri := gjson.GetBytes(given, "uri").String()
	if p.method == "resources/unsubscribe" {
		body, err := p.links.unwatch(ctx, uri, given)
		if err != nil {
			return nil, err
		}
		return raw.Result(p.version, p.method, body)
	}
	if p.links.watching() >= maxWatched {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many resources are subscribed to: end some subscriptions"}
	}
	body, u, err := p.first(ctx, given, p.links.upstreams(subscribes))
	if err != nil {
		return nil, err
	}
	p.links.mu.Lock()
	p.links.watched[uri] = &watch{upstream: u, count: 1}
	p.links.mu.Unlock()
	return raw.Result(p.version, p.method, body)
}

// maxWatched bounds the resources that a client, or all without sessions together, can be subscribed to.
const maxWatched = 10_000

func (l *links) watching() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watched)
}

func subscribes(c *sdk.ServerCapabilities) bool { return c.Resources != nil && c.Resources.Subscribe }

// unwatch ends one client's subscription, and the upstream's with that of the last.
func (l *links) unwatch(ctx context.Context, uri string, given json.RawMessage) (json.RawMessage, error) {
	l.mu.Lock()
	w := l.watched[uri]
	last := false
	if w != nil {
		w.count--
		if last = w.count <= 0; last {
			delete(l.watched, uri)
		}
	}
	l.mu.Unlock()
	if !last {
		return json.RawMessage("{}"), nil
	}
	if own := l.ownKey("resources/list", w.upstream, uri); own != uri {
		given = raw.With(given, "uri", quote(own))
	}
	return l.do(ctx, w.upstream, "resources/unsubscribe", given)
}

// follows reports whether anybody has subscribed to something of an upstream: it may tell of a part of that.
func (l *links) follows(u Upstream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.watched {
		if w.upstream.Name() == u.Name() {
			return true
		}
	}
	return false
}

// prompt hands on the request for a prompt, under the name that its upstream has for it.
func (p *passing) prompt(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	given := params(req)
	name := gjson.GetBytes(given, "name").String()
	u, own := p.links.promptOf(ctx, name, given)
	if u == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such prompt: list the prompts to see which there are"}
	}
	if own != name {
		given = raw.With(given, "name", quote(own))
	}
	body, err := p.links.do(ctx, u, p.method, given)
	if err != nil {
		return nil, err
	}
	return raw.Result(p.version, p.method, body)
}

// promptOf is the upstream that has a prompt, and its name there; nil: none has it.
func (l *links) promptOf(ctx context.Context, name string, given json.RawMessage) (Upstream, string) {
	upstreams := l.upstreams(hasPrompts)
	if len(upstreams) == 1 {
		return upstreams[0], l.ownKey("prompts/list", upstreams[0], name)
	}
	for again := false; len(upstreams) > 0; again = true {
		r, err := l.known(ctx, "prompts/list", given)
		if err != nil {
			return nil, ""
		}
		if u := r.holder[name]; u != nil {
			return u, r.ownKey(name)
		}
		if again {
			break
		}
		l.forget("prompts/list") // it may be new
	}
	return nil, ""
}

// complete hands on the request for completions to the upstream of the prompt or the template.
func (p *passing) complete(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	given := params(req)
	ref := gjson.GetBytes(given, "ref")
	upstreams := p.links.upstreams(hasCompletions)
	var u Upstream
	switch ref.Get("type").String() {
	case "ref/prompt":
		found, own := p.links.promptOf(ctx, ref.Get("name").String(), given)
		if found != nil && own != ref.Get("name").String() {
			given = raw.With(given, "ref", raw.With(json.RawMessage(ref.Raw), "name", quote(own)))
		}
		u = found
	case "ref/resource":
		uri := ref.Get("uri").String()
		if some := p.links.upstreams(hasResources); len(some) == 1 {
			u = some[0]
		} else if r, err := p.links.known(ctx, "resources/templates/list", given); err == nil && r.holder[uri] != nil {
			u = r.holder[uri]
		} else if holders := p.links.holders(ctx, uri, given, upstreams); len(holders) > 0 {
			u = holders[0]
		}
	}
	if u != nil && !hasCompletions(u.Capabilities()) {
		return raw.Result(p.version, p.method, json.RawMessage(`{"completion":{"values":[]}}`))
	}
	if u == nil {
		if len(upstreams) != 1 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is nothing to complete under this reference"}
		}
		u = upstreams[0]
	}
	body, err := p.links.do(ctx, u, p.method, given)
	if err != nil {
		return nil, err
	}
	return raw.Result(p.version, p.method, body)
}
