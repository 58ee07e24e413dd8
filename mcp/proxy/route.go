package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// codeNotFound is the code for a missing resource up to MCP 2025-11-25; later versions use invalid params.
const codeNotFound = -32002

// read passes on resources/read.
func (p *clientRequest) read(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	reqParams := params(req)
	body, _, err := p.first(ctx, reqParams, p.sessions.upstreams(hasResources))
	if err != nil {
		return nil, err
	}
	return raw.Result(p.version, p.method, body)
}

// first sends a request for a resource to the upstreams that may have it, one after the other, until one answers with a result. If only
// one may have the resource, first returns its error. Otherwise it returns the first error other than a missing resource, or else that the
// resource is missing.
func (p *clientRequest) first(ctx context.Context, reqParams json.RawMessage, upstreams []Upstream) (json.RawMessage, Upstream, error) {
	uri := gjson.GetBytes(reqParams, "uri").String()
	holders := p.sessions.candidates(ctx, uri, reqParams, upstreams)
	var failed error // the first error other than a missing resource
	for _, u := range holders {
		asked := reqParams
		if original := p.sessions.upstreamKey("resources/list", u, uri); original != uri {
			asked = raw.With(reqParams, "uri", quote(original))
		}
		p.sessions.client.Shown(ctx, u.Name()) // what fails shows something, too
		body, err := p.sessions.request(ctx, u, p.method, asked)
		if err == nil {
			return p.sessions.client.Scrubber().JSON(body), u, nil
		}
		missing := notFound(err)
		err = p.sessions.clientError(ctx, u, err)
		if len(holders) == 1 || ctx.Err() != nil {
			return nil, u, err
		}
		if failed == nil && !missing {
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
	return nil, nil, &jsonrpc.Error{
		Code: code, Data: raw.With(nil, "uri", quote(uri)),
		Message: "no such resource: list the resources and their templates to see which there are",
	}
}

// notFound reports whether an error means that the upstream does not have the resource.
func notFound(err error) bool {
	var rpcErr *jsonrpc.Error
	return errors.As(err, &rpcErr) &&
		(rpcErr.Code == codeNotFound || rpcErr.Code == jsonrpc.CodeInvalidParams || rpcErr.Code == jsonrpc.CodeMethodNotFound)
}

// candidates returns the upstreams that may have a resource: the one that lists it, else those with a matching template, else
// all. Lists that cannot be read are ignored.
func (l *sessions) candidates(ctx context.Context, uri string, reqParams json.RawMessage, upstreams []Upstream) []Upstream {
	if len(upstreams) < 2 {
		return upstreams
	}
	candidateNames := map[string]bool{}
	for _, u := range upstreams {
		candidateNames[u.Name()] = true
	}
	if r, err := l.knownRoutes(ctx, "resources/list", reqParams); err == nil {
		if u := r.upstream[uri]; u != nil && candidateNames[u.Name()] {
			return []Upstream{u}
		}
	}
	var holders []Upstream
	if r, err := l.knownRoutes(ctx, "resources/templates/list", reqParams); err == nil {
		seen := map[string]bool{}
		for _, key := range r.keys {
			if u := r.upstream[key]; candidateNames[u.Name()] && !seen[u.Name()] && matchesTemplate(r.originalKey(key), uri) {
				seen[u.Name()] = true
				holders = append(holders, u)
			}
		}
	}
	if len(holders) == 0 {
		return upstreams
	}
	return holders
}

// maxTemplate bounds the length in bytes of URI templates (RFC 6570) that are matched.
const maxTemplate = 4 << 10

// matchesTemplate reports whether a URI may be an expansion of a template (RFC 6570). It may say so of a few URIs that are none: whoever
// asks an upstream for one of them learns that it is missing, and asks the next.
func matchesTemplate(template, uri string) bool {
	if template == uri {
		return true
	}
	if len(template) > maxTemplate {
		return false
	}
	pattern, rest := strings.Builder{}, template
	for {
		literal, expression, found := strings.Cut(rest, "{")
		pattern.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		inner, after, closed := strings.Cut(expression, "}")
		switch {
		case !closed || inner == "":
			return false
		case strings.ContainsRune("+#/?&;.", rune(inner[0])):
			pattern.WriteString(".*")
		default: // a value without an operator is encoded, and keeps to its segment
			pattern.WriteString("[^/?#]*")
		}
		rest = after
	}
	matches, err := regexp.MatchString("^(?:"+pattern.String()+")$", uri)
	return err == nil && matches
}

// subscription is a subscription to a resource of an upstream.
type subscription struct {
	upstream Upstream
	count    int // the streams that follow the resource (see listen); 1 if it was made by resources/subscribe
}

// subscribe passes on a subscription or its end. Only clients with a session have subscriptions in this form.
func (p *clientRequest) subscribe(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if p.sessions.server == nil || p.version >= protocol.Stateless {
		return next(ctx, p.method, req) // the SDK refuses it
	}
	reqParams := params(req)
	uri := gjson.GetBytes(reqParams, "uri").String()
	if p.method == "resources/unsubscribe" {
		body, err := p.sessions.unsubscribe(ctx, uri, reqParams)
		if err != nil {
			return nil, err
		}
		return raw.Result(p.version, p.method, body)
	}
	if p.sessions.subscriptionCount() >= maxSubscriptions {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many resources are subscribed to: end some subscriptions"}
	}
	body, u, err := p.first(ctx, reqParams, p.sessions.upstreams(subscribes))
	if err != nil {
		return nil, err
	}
	p.sessions.mu.Lock()
	p.sessions.subscriptions[uri] = &subscription{upstream: u, count: 1}
	p.sessions.mu.Unlock()
	return raw.Result(p.version, p.method, body)
}

// maxSubscriptions bounds the subscribed resources of a client, or of all clients that share the sessions.
const maxSubscriptions = 10_000

func (l *sessions) subscriptionCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.subscriptions)
}

func subscribes(c *sdk.ServerCapabilities) bool { return c.Resources != nil && c.Resources.Subscribe }

// unsubscribe removes one subscriber of a resource. If none is left, it ends the subscription at the upstream and returns the upstream's
// result; otherwise it returns {}.
func (l *sessions) unsubscribe(ctx context.Context, uri string, reqParams json.RawMessage) (json.RawMessage, error) {
	l.mu.Lock()
	w := l.subscriptions[uri]
	last := false
	if w != nil {
		w.count--
		if last = w.count <= 0; last {
			delete(l.subscriptions, uri)
		}
	}
	l.mu.Unlock()
	if !last {
		return json.RawMessage("{}"), nil
	}
	if original := l.upstreamKey("resources/list", w.upstream, uri); original != uri {
		reqParams = raw.With(reqParams, "uri", quote(original))
	}
	return l.do(ctx, w.upstream, "resources/unsubscribe", reqParams)
}

// isSubscribed reports whether a client subscribed to any resource of an upstream. Which resource does not matter, because notifications
// may be about parts of a resource.
func (l *sessions) isSubscribed(u Upstream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.subscriptions {
		if w.upstream.Name() == u.Name() {
			return true
		}
	}
	return false
}

// prompt passes on prompts/get under the upstream's name of the prompt.
func (p *clientRequest) prompt(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	reqParams := params(req)
	name := gjson.GetBytes(reqParams, "name").String()
	u, original := p.sessions.promptOf(ctx, name, reqParams)
	if u == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such prompt: list the prompts to see which there are"}
	}
	if original != name {
		reqParams = raw.With(reqParams, "name", quote(original))
	}
	p.sessions.client.Shown(ctx, u.Name())
	body, err := p.sessions.do(ctx, u, p.method, reqParams)
	if err != nil {
		return nil, err
	}
	return raw.Result(p.version, p.method, body)
}

// promptOf returns the upstream that has a prompt, and its name there; nil: none.
func (l *sessions) promptOf(ctx context.Context, name string, reqParams json.RawMessage) (Upstream, string) {
	upstreams := l.upstreams(hasPrompts)
	if len(upstreams) == 1 {
		return upstreams[0], l.upstreamKey("prompts/list", upstreams[0], name)
	}
	for again := false; len(upstreams) > 0; again = true {
		r, err := l.knownRoutes(ctx, "prompts/list", reqParams)
		if err != nil {
			return nil, ""
		}
		if u := r.upstream[name]; u != nil {
			return u, r.originalKey(name)
		}
		if again {
			break
		}
		l.forget("prompts/list") // the prompt may be new
	}
	return nil, ""
}

// complete passes on completion/complete to the upstream of the prompt or template.
func (p *clientRequest) complete(ctx context.Context, req sdk.Request, _ sdk.MethodHandler) (sdk.Result, error) {
	reqParams := params(req)
	ref := gjson.GetBytes(reqParams, "ref")
	upstreams := p.sessions.upstreams(hasCompletions)
	var u Upstream
	switch ref.Get("type").String() {
	case "ref/prompt":
		up, original := p.sessions.promptOf(ctx, ref.Get("name").String(), reqParams)
		if up != nil && original != ref.Get("name").String() {
			reqParams = raw.With(reqParams, "ref", raw.With(json.RawMessage(ref.Raw), "name", quote(original)))
		}
		u = up
	case "ref/resource":
		uri := ref.Get("uri").String()
		if some := p.sessions.upstreams(hasResources); len(some) == 1 {
			u = some[0]
		} else if r, err := p.sessions.knownRoutes(ctx, "resources/templates/list", reqParams); err == nil && r.upstream[uri] != nil {
			u = r.upstream[uri]
		} else if holders := p.sessions.candidates(ctx, uri, reqParams, upstreams); len(holders) > 0 {
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
	p.sessions.client.Shown(ctx, u.Name())
	body, err := p.sessions.do(ctx, u, p.method, reqParams)
	if err != nil {
		return nil, err
	}
	return raw.Result(p.version, p.method, body)
}
