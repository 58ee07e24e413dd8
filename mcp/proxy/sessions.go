// Package proxy passes on to clients what MCP servers offer in addition to the functions of the catalog. Each client has its own sessions
// with the servers.
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

// Proxy opens each client's sessions with upstreams. It implements mcp.Passthrough.
type Proxy struct{ upstreams []Upstream }

// New returns a proxy for upstreams, in their order.
func New(upstreams []Upstream) *Proxy { return &Proxy{upstreams} }

// Open implements mcp.Passthrough.
func (p *Proxy) Open(c mcp.Client) mcp.UpstreamSessions {
	l := &sessions{
		client:        c,
		server:        c.Session(),
		opened:        map[string]*pendingSession{},
		routes:        map[string]*routes{},
		storedLists:   map[string]*storedList{},
		subscriptions: map[string]*subscription{},
		listeners:     map[*listener]bool{},
		warned:        map[string]bool{},
		tools:         toolLists{byUpstream: map[string]*toolList{}},
		reloaded:      make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// sessions are a client's sessions with upstreams, each opened at its first use. If server is nil, they serve all clients that have the
// same rights and no sessions of their own, and keep no state for one of them. The type implements mcp.UpstreamSessions.
type sessions struct {
	client mcp.Client
	server *sdk.ServerSession // the client's session with onecall; nil: several clients
	ctx    context.Context    // ends with the sessions
	cancel context.CancelFunc

	mu            sync.Mutex
	opened        map[string]*pendingSession // the sessions by name of the upstream
	routes        map[string]*routes         // the routes of each list as it was last read, by method
	storedLists   map[string]*storedList     // the lists whose pages a client is reading, by method
	subscriptions map[string]*subscription   // the subscriptions by URI of the resource
	listeners     map[*listener]bool
	listening     int             // listeners, with those that are still opening sessions
	warned        map[string]bool // warnings already logged
	level         json.RawMessage // params of logging/setLevel; nil: not called
	closed        bool
	tools         toolLists
	waitUntil     time.Time     // end of the wait for starting upstreams; zero: no request has waited yet
	unannounced   []Upstream    // upstreams that announce will announce; empty: it is not running
	reloaded      chan struct{} // wakes announce after a reload

	registry *steps.Registry // the registry from which allowed was computed
	allowed  map[string]bool // sources of which the caller may use a function
}

// configured returns the upstreams of the current configuration.
func (l *sessions) configured() []Upstream {
	if p, ok := l.client.Passthrough().(*Proxy); ok {
		return p.upstreams
	}
	return nil
}

// pendingSession is a session that is open, or has failed to open, once done is closed.
type pendingSession struct {
	upstream Upstream
	done     chan struct{}
	session  *mcpsource.UpstreamSession
	err      error
}

// ifOpen returns the session if it is open; nil: it is not.
func (o *pendingSession) ifOpen() *mcpsource.UpstreamSession {
	select {
	case <-o.done:
		return o.session
	default:
		return nil
	}
}

// Answer implements mcp.UpstreamSessions.
func (l *sessions) Answer(ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	ss, ok := req.GetSession().(*sdk.ServerSession)
	if !ok || len(l.configured()) == 0 {
		return next(ctx, method, req)
	}
	p := &clientRequest{sessions: l, client: ss, method: method}
	answer := p.answerer()
	if answer == nil {
		return next(ctx, method, req)
	}
	p.version = raw.Version(ss, req)
	return answer(context.WithValue(ctx, clientKey{}, ss), req, next)
}

// clientRequest is one request of the client.
type clientRequest struct {
	sessions *sessions
	client   *sdk.ServerSession
	method   string
	version  string
}

// answerer answers a request, with or without next.
type answerer = func(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error)

// answerer returns the method's answerer; nil: upstreams are not involved.
func (p *clientRequest) answerer() answerer {
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

// params returns a request's params for an upstream; nil: none.
func params(req sdk.Request) json.RawMessage {
	data, err := json.Marshal(req.GetParams())
	if err != nil || string(data) == "null" {
		return nil
	}
	return data
}

// Reload drops all cached lists, and the sessions with upstreams that are no longer configured or were replaced. These sessions are closed
// once drained is closed.
func (l *sessions) Reload(drained <-chan struct{}) {
	configured := map[string]Upstream{}
	for _, u := range l.configured() {
		configured[u.Name()] = u
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes, l.storedLists, l.registry = map[string]*routes{}, map[string]*storedList{}, nil
	for name, o := range l.opened {
		if o.upstream == configured[name] {
			continue
		}
		delete(l.opened, name)
		go func() {
			select {
			case <-drained:
			case <-l.ctx.Done():
			}
			<-o.done
			if o.session != nil {
				_ = o.session.Close()
			}
		}()
	}
	l.tools.retain(configured)
	select {
	case l.reloaded <- struct{}{}:
	default: // a signal is pending
	}
	for uri, w := range l.subscriptions {
		if w.upstream != configured[w.upstream.Name()] {
			delete(l.subscriptions, uri)
		}
	}
}

// upstreams returns the upstreams with capabilities that match (nil: any) of which the caller may use a function, in the
// configuration's order.
func (l *sessions) upstreams(match func(*sdk.ServerCapabilities) bool) []Upstream {
	registry := l.client.View().Registry()
	l.mu.Lock()
	if l.registry != registry {
		l.registry, l.allowed = registry, map[string]bool{}
		for _, entry := range registry.All() {
			l.allowed[entry.Spec().Source()] = true
		}
	}
	allowed := l.allowed
	l.mu.Unlock()
	var list []Upstream
	for _, u := range l.configured() {
		if c := u.Capabilities(); c != nil && allowed[u.Name()] && (match == nil || match(c)) {
			list = append(list, u)
		}
	}
	return list
}

// logs reports whether an upstream sends log messages.
func logs(u Upstream) bool {
	c := u.Capabilities()
	return c != nil && c.Logging != nil //nolint:staticcheck // servers still log
}

// setLevel passes the client's log level to the open sessions and stores it for later ones.
func (p *clientRequest) setLevel(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	result, err := next(ctx, p.method, req)
	if err != nil || p.sessions.server == nil {
		return result, err
	}
	level := params(req)
	p.sessions.mu.Lock()
	p.sessions.level = level
	p.sessions.mu.Unlock()
	p.sessions.forEach(logs, func(session *mcpsource.UpstreamSession) { _, _ = session.Do(ctx, p.method, level) })
	return result, nil
}

// rootsChanged notifies the upstreams of the open sessions that the client's roots have changed.
func (p *clientRequest) rootsChanged(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	if p.sessions.server != nil {
		p.sessions.forEach(nil, func(session *mcpsource.UpstreamSession) { _, _ = session.Do(ctx, p.method, nil) })
	}
	return next(ctx, p.method, req)
}

// forEach calls f for the open sessions of upstreams that match (nil: all), concurrently.
func (l *sessions) forEach(match func(Upstream) bool, f func(*mcpsource.UpstreamSession)) {
	var all sync.WaitGroup
	for _, u := range l.configured() {
		l.mu.Lock()
		o := l.opened[u.Name()]
		l.mu.Unlock()
		if o == nil || match != nil && !match(u) {
			continue
		}
		if session := o.ifOpen(); session != nil {
			all.Go(func() { f(session) })
		}
	}
	all.Wait()
}

// do sends a request to an upstream and removes secrets from the result.
func (l *sessions) do(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	result, err := l.doRaw(ctx, u, method, params)
	return l.client.Scrubber().JSON(result), err
}

// doRaw is like do, but leaves secrets in the result.
func (l *sessions) doRaw(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	result, err := l.request(ctx, u, method, params)
	if err != nil {
		return nil, l.clientError(ctx, u, err)
	}
	return result, nil
}

// request is like doRaw, but returns the error unchanged.
func (l *sessions) request(ctx context.Context, u Upstream, method string, params json.RawMessage) (json.RawMessage, error) {
	session, err := l.session(ctx, u)
	if err != nil {
		return nil, err
	}
	return session.Do(ctx, method, params)
}

// clientError returns the error of an upstream request for the client whose request has ctx. Errors of the upstream itself are
// unchanged.
func (l *sessions) clientError(ctx context.Context, u Upstream, err error) *jsonrpc.Error {
	if f, ok := fault.As(err); ok && f != nil {
		err = steps.HideCause(ctx, u.Name(), f)
	}
	return l.client.ClientError(err)
}
