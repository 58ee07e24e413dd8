// Package proxy passes through what MCP servers offer beside the functions of the catalog: to each client, in sessions of its
// own with them.
package proxy

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Proxy opens the sessions with upstreams of each client. It implements mcp.Passthrough.
type Proxy struct{ upstreams []Upstream }

// New passes through what upstreams have, in their order.
func New(upstreams []Upstream) *Proxy { return &Proxy{upstreams} }

// Open implements mcp.Passthrough.
func (p *Proxy) Open(c mcp.Client) mcp.Links {
	l := &links{client: c, owner: c.Session(), opened: map[string]*opening{}, routes: map[string]*routes{}, pages: map[string]*pages{},
		watched: map[string]*watch{}, listeners: map[*listener]bool{}, warned: map[string]bool{}, tools: toolLists{of: map[string]*toolList{}}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// links are the sessions with upstreams that belong to one client, opened at their first use. Those of no owner serve all
// clients of the same rights without sessions, of which nothing is kept. It implements mcp.Links.
type links struct {
	client mcp.Client
	owner  *sdk.ServerSession
	ctx    context.Context // ends with the links
	cancel context.CancelFunc

	mu        sync.Mutex
	opened    map[string]*opening // by upstream
	routes    map[string]*routes  // by list, as it was last read
	pages     map[string]*pages   // by list, of which a client reads pages
	watched   map[string]*watch   // the resources that are subscribed to, by URI
	listeners map[*listener]bool
	warned    map[string]bool // what was warned of
	level     json.RawMessage // the params of logging/setLevel; nil: the client has not asked for a level
	closed    bool
	tools     toolLists
	settled   time.Time // when upstreams that are starting are not waited for any more; zero: nobody has waited
	expecting bool      // it is awaited that upstreams are there

	of      *steps.Registry // that allowed was made of
	allowed map[string]bool // the sources of which the caller may use a function
}

// served are the upstreams that are served at the moment.
func (l *links) served() []Upstream {
	if p, ok := l.client.Passthrough().(*Proxy); ok {
		return p.upstreams
	}
	return nil
}

// opening is a link that is there once done is closed, or has failed to open.
type opening struct {
	of   Upstream
	done chan struct{}
	link *mcpsource.Link
	err  error
}

// Answer implements mcp.Links.
func (l *links) Answer(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	ss, ok := req.GetSession().(*sdk.ServerSession)
	if !ok || len(l.served()) == 0 {
		return next(ctx, method, req)
	}
	p := &passing{links: l, session: ss, method: method}
	answer := p.answers()
	if answer == nil {
		return next(ctx, method, req)
	}
	p.version = raw.Version(ss, req)
	return answer(context.WithValue(ctx, clientKey{}, ss), req, next)
}

// passing is one request on its way to upstreams.
type passing struct {
	links   *links
	session *sdk.ServerSession
	method  string
	version string
}

// answerer answers a request in place of next, or with its help.
type answerer = func(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error)

// answers is what answers the request; nil: it is none that upstreams have to do with.
func (p *passing) answers() answerer {
	switch p.method {
	case "initialize", "server/discover":
		return p.greet
	case "resources/list", "resources/templates/list", "prompts/list":
		return p.list
	case "resources/read":
		return p.read
	case "resources/subscribe", "resources/unsubscribe":
		return p.subscribe
	case "prompts/get":
		return p.prompt
	case "completion/complete":
		return p.complete
	case "logging/setLevel":
		return p.setLevel
	case "subscriptions/listen":
		return p.listen
	case "notifications/roots/list_changed":
		return p.rootsChanged
	}
	return nil
}

// params are a request's own, as they go to an upstream; nil: it has none.
func params(req sdk.Request) json.RawMessage {
	data, err := json.Marshal(req.GetParams())
	if err != nil || string(data) == "null" {
		return nil
	}
	return data
}

// Renew lets go of the sessions with upstreams that are not served any more, which end when all calls have that may use them
// (drained), and of what was read of all.
func (l *links) Renew(drained <-chan struct{}) {
	stays := map[string]Upstream{}
	for _, u := range l.served() {
		stays[u.Name()] = u
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes, l.pages, l.of = map[string]*routes{}, map[string]*pages{}, nil
	for name, o := range l.opened {
		if o.of == stays[name] {
			continue
		}
		delete(l.opened, name)
		go func() {
			select {
			case <-drained:
			case <-l.ctx.Done():
			}
			<-o.done
			if o.link != nil {
				_ = o.link.Close()
			}
		}()
	}
	l.tools.keep(stays)
	for uri, w := range l.watched {
		if w.upstream != stays[w.upstream.Name()] {
			delete(l.watched, uri)
		}
	}
}

// upstreams are those that have what offers asks for (nil: anything) and of which the caller may use a function, in the
// configuration's order.
func (l *links) upstreams(offers func(*sdk.ServerCapabilities) bool) []Upstream {
	registry := l.client.View().Registry()
	l.mu.Lock()
	if l.of != registry {
		l.of, l.allowed = registry, map[string]bool{}
		for _, entry := range registry.All() {
			l.allowed[entry.Spec().Source()] = true
		}
	}
	allowed := l.allowed
	l.mu.Unlock()
	var list []Upstream
	for _, u := range l.served() {
		if c := u.Capabilities(); c != nil && allowed[u.Name()] && (offers == nil || offers(c)) {
			list = append(list, u)
		}
	}
	return list
}

func logs(u Upstream) bool {
	c := u.Capabilities()
	return c != nil && c.Logging != nil //nolint:staticcheck // servers still log
}

// setLevel hands the client's level on to the sessions that are open, and to those to come.
func (p *passing) setLevel(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	result, err := next(ctx, p.method, req)
	if err != nil || p.links.owner == nil {
		return result, err
	}
	level := params(req)
	p.links.mu.Lock()
	p.links.level = level
	p.links.mu.Unlock()
	p.links.each(logs, func(link *mcpsource.Link) { _, _ = link.Do(ctx, p.method, level) })
	return result, nil
}

// rootsChanged tells the sessions that are open.
func (p *passing) rootsChanged(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if p.links.owner != nil {
		p.links.each(func(Upstream) bool { return true }, func(link *mcpsource.Link) { _, _ = link.Do(ctx, p.method, nil) })
	}
	return next(ctx, p.method, req)
}

// each does something with the sessions that are open, side by side.
func (l *links) each(of func(Upstream) bool, do func(*mcpsource.Link)) {
	var all sync.WaitGroup
	for _, u := range l.served() {
		l.mu.Lock()
		o := l.opened[u.Name()]
		l.mu.Unlock()
		if o == nil || !of(u) {
			continue
		}
		select {
		case <-o.done:
			if o.link != nil {
				all.Go(func() { do(o.link) })
			}
		default: // it gets the level when it is open
		}
	}
	all.Wait()
}

// do makes a request of one upstream.
func (l *links) do(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	result, err := l.ofUpstream(ctx, u, method, params)
	return l.client.Scrubber().JSON(result), err
}

// ofUpstream makes a request of one upstream, whose secrets are in the result still.
func (l *links) ofUpstream(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	result, err := l.request(ctx, u, method, params)
	if err != nil {
		return nil, l.failed(ctx, u, err)
	}
	return result, nil
}

// request makes it, and gives the error as it is.
func (l *links) request(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	link, err := l.link(ctx, u)
	if err != nil {
		return nil, err
	}
	return link.Do(ctx, method, params)
}

// failed is the error of a request of an upstream as the client whose request ctx is of is told it. What the upstream itself has
// answered stays.
func (l *links) failed(ctx context.Context, u Upstream, err error) *jsonrpc.Error {
	if f, ok := fault.As(err); ok && f != nil {
		err = steps.WithoutCause(ctx, u.Name(), f)
	}
	return l.client.Told(err)
}
