package mcpsource

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Peer is the MCP client that a link is opened for.
type Peer struct {
	Capabilities *sdk.ClientCapabilities // they are declared to the server; nil: none
	Protocol     string                  // the MCP version of the client; "": the newest
	Info         *sdk.Implementation     // what the server is told of the client; nil: onecall itself

	// Ask has the client answer a request of the server: sampling/createMessage, elicitation/create, roots/list. ctx is
	// that of the call in flight that the server asks in, else one of the link's own; it ends when the server has no use
	// for an answer any more. An error that is a *jsonrpc.Error reaches the server as it is. nil: the client cannot be asked.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify tells the client what the server tells; ctx as for Ask. It is called in the order in which the server tells,
	// for each call and for what concerns none. A client that is slow misses what comes too fast. nil: it is told nothing.
	Notify func(ctx context.Context, method string, params json.RawMessage)
}

// Link is a session with the server that belongs to one client: nothing of it reaches another. Where the server speaks
// over stdio it is a process of its own. A session that is lost, or has made room for another client's, is made anew at the
// next use, with the client's log level and subscriptions. It may be used by many goroutines.
type Link struct {
	source  *Source
	peer    Peer
	ctx     context.Context // ends with the link
	cancel  context.CancelFunc
	running sync.WaitGroup
	outside chan note // what the server tells outside of calls

	mu         sync.Mutex
	session    *session
	opening    chan struct{} // closed when the session that is being made is there, or is not; nil: none is made
	failure    *fault.Error  // of the last try
	failed     time.Time     // when that was
	level      json.RawMessage
	subscribed map[string]json.RawMessage // the params of subscriptions, by URI
	closed     bool
}

// Link opens a session with the server for a client. A client of MCP 2025-11-25 or older gets one with the initialize
// handshake, in which the server can ask and tell; for a newer one the newest version is taken that the server has. The
// caller closes it. Errors: limit_exceeded where MaxLinks sessions are in use, unavailable, denied, and others as for the
// start of a source; the codes of the context's end.
func (s *Source) Link(ctx context.Context, peer *Peer) (*Link, error) {
	l := &Link{source: s, subscribed: map[string]json.RawMessage{}, outside: make(chan note, maxNotes)}
	if peer != nil {
		l.peer = *peer
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	var f *fault.Error
	switch {
	case s.closed:
		f = s.unavailable("the source is closed")
	default:
		s.links[l] = true
	}
	s.mu.Unlock()
	if f != nil {
		l.cancel()
		return nil, f
	}
	l.running.Go(l.tell)
	n, f := l.acquire(ctx)
	if f != nil {
		_ = l.Close()
		return nil, f
	}
	l.release(n)
	return l, nil
}

// Capabilities is what the server offers beside tools, as its last session said; nil while that is not known.
func (s *Source) Capabilities() *sdk.ServerCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// Close ends the session, and waits for what belongs to it as Source.Close does. It may be called more than once.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.running.Wait()
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	delete(l.source.links, l)
	return nil
}

type linkKey struct{ source *Source }

// linkCall is what a context carries of a call in a link.
type linkedCall struct {
	link   *Link
	params json.RawMessage
}

// Call gives a context with which the functions of the link's source are called in this session. params are those of the
// client's own tools/call: what they hold beside name and arguments (_meta, inputResponses, requestState) is handed on to
// the server. nil: there is none. A JSON-RPC error that the server answers is the Err of the fault that comes back
// (*jsonrpc.Error).
func (l *Link) Call(ctx context.Context, params json.RawMessage) context.Context {
	return context.WithValue(ctx, linkKey{l.source}, &linkedCall{l, params})
}

// linkOf is the link to s that ctx carries, else nil.
func linkOf(ctx context.Context, s *Source) *Link {
	if c, ok := ctx.Value(linkKey{s}).(*linkedCall); ok {
		return c.link
	}
	return nil
}

// acquire gives the link's session, which the caller releases. One that is lost is made anew.
func (l *Link) acquire(ctx context.Context) (*session, *fault.Error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, l.source.unavailable("its session with this client has ended")
		case l.session != nil && l.session.ctx.Err() == nil:
			n := l.session
			n.calls++
			l.mu.Unlock()
			return n, nil
		case l.opening != nil:
		case l.failure != nil && time.Since(l.failed) < hurryAfter:
			f := *l.failure
			l.mu.Unlock()
			f.Outcome = fault.NotSent
			return nil, &f
		default:
			l.opening = make(chan struct{})
			l.running.Go(l.open)
		}
		opening := l.opening
		l.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, stopped(ctx, l.source.options.Name+" has not been ready", fault.NotSent)
		}
	}
}

// release gives a session back. One whose server could not be reached ends when nobody uses it.
func (l *Link) release(n *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.calls--
	n.used = time.Now()
	if n.calls == 0 && n.doubted.Load() {
		n.cancel()
	}
}

// open makes a session, and ends it when it is lost or the link is closed.
func (l *Link) open() {
	place := &room{l}
	defer l.source.leave(place)
	var n *session
	f := l.source.makeRoom(place)
	if f == nil {
		n, f = l.connect()
	}
	l.mu.Lock()
	if l.session, l.failure = n, f; f != nil {
		l.failed = time.Now()
	}
	close(l.opening)
	l.opening = nil
	l.mu.Unlock()
	if n == nil {
		return
	}
	select {
	case <-n.ctx.Done():
	case <-l.ctx.Done():
	}
	n.close()
	n.tap.link.end()
}

// room is what a session of a link takes up.
type room struct{ link *Link }

// parkAfter is how long a session must not have been used before it makes room for another client's.
const parkAfter = time.Second

// makeRoom finds room for a session: of those that nobody uses, the one that was used the longest ago ends, one with
// subscriptions last.
func (s *Source) makeRoom(place *room) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.rooms) >= s.options.MaxLinks {
		var victim *room
		var best idleness
		for r := range s.rooms {
			if idle, ok := r.link.idle(); ok && (victim == nil || idle.before(best)) {
				victim, best = r, idle
			}
		}
		if victim == nil {
			f := fault.New(fault.LimitExceeded, "MCP server %s: %d clients use a session with it, and no more are allowed: try again later, or raise maxLinks",
				s.options.Name, s.options.MaxLinks)
			f.Outcome = fault.NotSent
			return f
		}
		if victim.link.park(best.session) {
			delete(s.rooms, victim)
		}
	}
	s.rooms[place] = true
	return nil
}

func (s *Source) leave(place *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rooms, place)
}

// idleness is a session that nobody uses.
type idleness struct {
	session *session
	used    time.Time
	follows bool // it has subscriptions
}

func (i idleness) before(j idleness) bool {
	if i.follows != j.follows {
		return !i.follows
	}
	return i.used.Before(j.used)
}

// idle is the link's session where it may end for another client's.
func (l *Link) idle() (idleness, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.session
	if n == nil || n.ctx.Err() != nil || n.calls > 0 || time.Since(n.used) < parkAfter {
		return idleness{}, false
	}
	return idleness{n, n.used, len(l.subscribed) > 0}, true
}

// park ends a session that nobody uses; false: somebody does by now.
func (l *Link) park(n *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.calls > 0 {
		return false
	}
	n.cancel()
	return true
}

// connect greets the server, and puts the session into the state that the client has asked for.
func (l *Link) connect() (*session, *fault.Error) {
	s := l.source
	ctx, cancel := context.WithTimeout(l.ctx, s.options.StartTimeout)
	defer cancel()
	n, f, silent := s.connect(ctx, l.protocol(), l)
	if f != nil && silent && !l.sessional() && ctx.Err() == nil {
		n, f, _ = s.connect(ctx, legacyProtocol, l) // it may know the older greeting only
	}
	if f != nil {
		return nil, f
	}
	l.mu.Lock()
	level, subscribed := l.level, make([]json.RawMessage, 0, len(l.subscribed))
	for _, params := range l.subscribed {
		subscribed = append(subscribed, params)
	}
	l.mu.Unlock()
	if level != nil {
		_, _ = n.request(ctx, methodSetLevel, level) // what it refuses now it would have refused then
	}
	for _, params := range subscribed {
		_, _ = n.subscription(ctx, methodSubscribe, params)
	}
	return n, nil
}

// sessional tells whether the client has sessions, and the server can so ask and tell in one.
func (l *Link) sessional() bool { return l.peer.Protocol != "" && l.peer.Protocol <= legacyProtocol }

// protocol is the version of MCP to greet the server in; "": the newest.
func (l *Link) protocol() string {
	s := l.source
	if l.sessional() {
		if p := s.options.Protocol; p != "" && p < legacyProtocol {
			return p
		}
		return legacyProtocol
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil { // it has found out what the server speaks
		return s.session.protocol
	}
	return s.options.Protocol
}

// introduce says in whose name the server is greeted.
func (l *Link) introduce(who **sdk.Implementation, o *sdk.ClientOptions) {
	o.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
	if l.peer.Capabilities != nil {
		o.Capabilities = l.peer.Capabilities
	}
	if l.peer.Info != nil {
		*who = l.peer.Info
	}
	// A server of 2026-07-28 is asked to tell of these; what it tells is taken before the SDK sees it.
	o.PromptListChangedHandler = func(context.Context, *sdk.PromptListChangedRequest) {}
	o.ResourceListChangedHandler = func(context.Context, *sdk.ResourceListChangedRequest) {}
}

// proxied are the capabilities of a client that can do all that a server may ask.
//
//nolint:staticcheck // servers still ask for roots and sample
func proxied() *sdk.ClientCapabilities {
	return &sdk.ClientCapabilities{
		RootsV2:     &sdk.RootCapabilities{ListChanged: true},
		Sampling:    &sdk.SamplingCapabilities{},
		Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}},
	}
}

// tell passes on what the server tells outside of calls, until the link is closed.
func (l *Link) tell() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case n := <-l.outside:
			l.peer.Notify(l.ctx, n.method, n.data)
		}
	}
}

// remember keeps what a new session has to be told again.
func (l *Link) remember(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uri := gjson.GetBytes(params, "uri").String()
	switch method {
	case methodSetLevel:
		l.level = params
	case methodSubscribe:
		l.subscribed[uri] = params
	case methodUnsubscribe:
		delete(l.subscribed, uri)
	}
}
