package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// links are the sessions with upstreams that belong to one client, opened at their first use. Those of a face (owner nil)
// serve all its clients without sessions, of which nothing is kept.
type links struct {
	face   *face
	owner  *session
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

// opening is a link that is there once done is closed, or has failed to open.
type opening struct {
	of   Upstream
	done chan struct{}
	link Link
	err  error
}

// newLinks makes the links of a session; nil where the surface passes nothing through.
func newLinks(n *session) *links {
	if !n.face.passes() {
		return nil
	}
	return n.face.newLinks(n)
}

func (f *face) newLinks(owner *session) *links {
	l := &links{face: f, owner: owner, opened: map[string]*opening{}, routes: map[string]*routes{}, pages: map[string]*pages{},
		watched: map[string]*watch{}, listeners: map[*listener]bool{}, warned: map[string]bool{}, tools: toolLists{of: map[string]*toolList{}}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// passes tells whether this face passes through what upstreams offer beside tools.
func (f *face) passes() bool { return f.surface == SurfaceFlat || f.surface == SurfaceHybrid }

// passThrough answers what upstreams offer.
func (f *face) passThrough() sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		if !f.passes() {
			return f.passTools(next)
		}
		if f.shared == nil {
			f.shared = f.newLinks(nil)
		}
		return f.passAll(next)
	}
}

func (f *face) passAll(next sdk.MethodHandler) sdk.MethodHandler {
	alone := f.passTools(next)
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ss, ok := req.GetSession().(*sdk.ServerSession)
		if !ok || len(f.server.o().Upstreams) == 0 {
			return alone(ctx, method, req)
		}
		p := &passing{face: f, links: f.linksOf(ss), client: ss, method: method, version: versionOf(ss, req)}
		answer := p.answers()
		if answer == nil {
			return next(ctx, method, req)
		}
		return answer(context.WithValue(ctx, clientKey{}, ss), req, next)
	}
}

// passTools gives the list and the results of upstreams' tools as they are, where nothing else of upstreams is passed through.
func (f *face) passTools(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ss, ok := req.GetSession().(*sdk.ServerSession)
		if !ok || method != "tools/call" && method != "tools/list" {
			return next(ctx, method, req)
		}
		p := &passing{face: f, client: ss, method: method, version: versionOf(ss, req)}
		if method == "tools/list" {
			return p.listTools(ctx, req, next)
		}
		return p.callTool(ctx, req, next)
	}
}

// linksOf are the links that a client's requests go through.
func (f *face) linksOf(ss *sdk.ServerSession) *links {
	if n := f.server.transport.Session(ss); n != nil && n.Kept.(*session).links != nil {
		return n.Kept.(*session).links
	}
	return f.shared
}

// versionOf is the version of MCP that a request is made in.
func versionOf(ss *sdk.ServerSession, req sdk.Request) string {
	if params := req.GetParams(); params != nil && !reflect.ValueOf(params).IsNil() {
		if version, ok := params.GetMeta()[sdk.MetaKeyProtocolVersion].(string); ok {
			return version
		}
	}
	if params := ss.InitializeParams(); params != nil {
		return params.ProtocolVersion
	}
	return ""
}

// passing is one request on its way to upstreams.
type passing struct {
	face    *face
	links   *links // nil: tools alone are passed through
	client  *sdk.ServerSession
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
	case "tools/list":
		return p.listTools
	case "tools/call":
		return p.callTool
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

// renew lets go of the sessions with upstreams that are not served any more, which end when all calls have that may use them
// (drained), and of what was read of all.
func (l *links) renew(drained <-chan struct{}) {
	stays := map[string]Upstream{}
	for _, u := range l.face.server.o().Upstreams {
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

// allLinks are the sessions with upstreams of all clients.
func (s *Server) allLinks() (all []*links) {
	for _, f := range s.allFaces() {
		if f.shared != nil {
			all = append(all, f.shared)
		}
	}
	for _, n := range s.transport.Sessions() {
		if l := n.Kept.(*session).links; l != nil {
			all = append(all, l)
		}
	}
	return all
}

// upstreams are those that have what offers asks for (nil: anything) and of which the caller may use a function, in the
// configuration's order.
func (l *links) upstreams(offers func(*sdk.ServerCapabilities) bool) []Upstream {
	registry := l.face.view().Registry()
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
	for _, u := range l.face.server.o().Upstreams {
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
	p.links.each(logs, func(link Link) { _, _ = link.Do(ctx, p.method, level) })
	return result, nil
}

// rootsChanged tells the sessions that are open.
func (p *passing) rootsChanged(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if p.links.owner != nil {
		p.links.each(func(Upstream) bool { return true }, func(link Link) { _, _ = link.Do(ctx, p.method, nil) })
	}
	return next(ctx, p.method, req)
}

// each does something with the sessions that are open, side by side.
func (l *links) each(of func(Upstream) bool, do func(Link)) {
	var all sync.WaitGroup
	for _, u := range l.face.server.o().Upstreams {
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
	return l.face.server.o().Scrubber.JSON(result), err
}

// ofUpstream makes a request of one upstream, whose secrets are in the result still.
func (l *links) ofUpstream(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	result, err := l.request(ctx, u, method, params)
	if err != nil {
		return nil, l.failed(ctx, u, method, err)
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
func (l *links) failed(ctx context.Context, u Upstream, method string, err error) *jsonrpc.Error {
	if f, ok := fault.As(err); ok && f != nil {
		err = steps.WithoutCause(ctx, u.Name(), method, f)
	}
	return l.face.server.told(err)
}

// told is an error as a client is told it: what an upstream answers stays what it is, but for the secrets.
func (s *Server) told(err error) *jsonrpc.Error {
	scrubber := s.o().Scrubber
	coded, ok := fault.As(err)
	var wire *jsonrpc.Error
	if !ok && errors.As(err, &wire) { // not one that a fault was caused by, such as the mark of what the SDK has not delivered
		c := *wire
		c.Message, c.Data = scrubber.Text(wire.Message), scrubber.JSON(wire.Data)
		return &c
	}
	if !ok || coded == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "a defect of onecall stopped this request"}
	}
	data, marshalErr := json.Marshal(map[string]string{"code": string(coded.Code)})
	if marshalErr != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: scrubber.Text(coded.Message), Data: data}
}
