package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/internal/protocol"
)

// Path is where MCP is served over HTTP.
const Path = "/mcp"

// ServeHTTP serves MCP's Streamable HTTP transport to all who connect to l, until ctx is done; then running calls have
// Grace to end. It closes l. Clients of a version without sessions and those with sessions come to the same URL. Beside it
// /healthz reports that the process serves, /readyz whether it is ready, and the metadata of a protected resource (RFC 9728)
// how a client gets a token.
//
// A Server serves one listener: a second call replaces the first's.
//
// If callers have no tokens, only a loopback listener is served (denied): every caller has the same rights then.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, a *Access) error {
	if host, _, err := net.SplitHostPort(l.Addr().String()); a.Callers == nil && (err != nil || !loopback.Is(host)) {
		l.Close()
		return fault.New(fault.Denied, "%s is no loopback address: without tokens for its callers onecall serves this machine only", l.Addr())
	}
	s.SetAccess(a)
	var fresh newConnections
	server := &http.Server{
		Handler:           fresh.served(s.httpHandler()),
		ConnContext:       fresh.accepted,
		ConnState:         fresh.closed,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.o().Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	case <-ctx.Done():
	}
	s.calls.drain(s.o().Grace)
	s.endSessions()
	s.endRequests(func(*openRequest) bool { return true })
	_ = l.Close()
	err := <-failed
	fresh.await(s.awaitTime)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // a client that does not take the end of its answer is left
	}
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	}
	return nil
}

// httpHandler answers all requests. Each has its time to come in, and to be answered.
func (s *Server) httpHandler() http.Handler {
	o := s.o()
	options := sdk.StreamableHTTPOptions{
		Logger:                       SDKLog(o.Log),
		SessionTimeout:               o.SessionTimeout,
		MaxRequestBodyBytes:          -1, // messages are read before the protocol's library sees them
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true, // Access knows the hosts
	}
	serverOf := func(sessions bool) func(*http.Request) *sdk.Server {
		return func(r *http.Request) *sdk.Server {
			from := identityOf(r.Context(), nil)
			return s.handler.Server(from.Caller, from.target, sessions)
		}
	}
	stateful := sdk.NewStreamableHTTPHandler(serverOf(true), &options)
	options.Stateless = true
	stateless := sdk.NewStreamableHTTPHandler(serverOf(false), &options)
	answer := func(w http.ResponseWriter, r *http.Request, m *message) {
		serve, next := s.inSession, http.Handler(stateful)
		if o.Stateless || !protocol.HasSessions(r.Header.Get("Mcp-Protocol-Version")) {
			serve, next = s.withoutSession, stateless
		}
		if m.isStream {
			next = s.stream(next, m.from)
		}
		serve(next, w, r, m)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", s.ready)
	mux.HandleFunc(metadataPath, s.metadata)
	mux.HandleFunc(metadataPath+"/", s.metadata)
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) { s.admit(w, r, answer) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // also if nobody reads it: net/http waits for its end
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.readTime)) // net/http's own connections have one
		}
		patient := &writer{w}
		defer patient.extend() // for what net/http writes at the end
		mux.ServeHTTP(patient, r)
	})
}

// message is what a request asks for.
type message struct {
	envelope           // of the message in the body of a POST
	from     *identity // who has sent it
	body     []byte    // nil: there is none
	release  func()    // gives back what is counted of it (see small), until it is decoded
	isStream bool      // the answer is a stream that stays open
}

// admit finds out who has sent a request, reads it, and has it answered if the caller may send it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter, *http.Request, *message)) {
	access := s.access.Load()
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	if f := access.refuses(r, query); f != nil {
		s.reject(w, r, f)
		return
	}
	target, f := s.handler.Target(query)
	if f != nil {
		s.reject(w, r, f)
		return
	}
	from := s.identify(access, target, w, r)
	if from == nil {
		return
	}
	leave, ok := s.requests.begin(from.ID, s.o().Limits(access.Callers != nil).Requests)
	if !ok {
		s.tooBusy(w, from, "too many of your requests are under way: wait until one is answered")
		return
	}
	defer leave()
	m := &message{from: from, release: func() {}, isStream: r.Method == http.MethodGet}
	defer func() { m.release() }()
	if !s.readMessage(w, r, m) {
		return
	}
	m.isStream = m.isStream || m.method == "subscriptions/listen"
	if !s.unchanged(from) { // it may have taken its time to send all of it
		if from = s.identify(s.access.Load(), target, w, r); from == nil {
			return
		}
		m.from = from
	}
	r = r.WithContext(context.WithValue(r.Context(), identityKey{}, from))
	r.Header.Del(callHeader) // no client chooses it
	if m.method == "tools/call" {
		if id := s.handler.CallID(r.Context()); id != "" {
			r.Header.Set(callHeader, id)
			w.Header().Set(callHeader, id)
		}
	}
	if len(m.body) < heavyMessage || from.token == "" { // without tokens there is one caller, who needs no slot
		m.release()
	} else {
		done, ok := s.decode(r.Context(), m)
		if !ok {
			return
		}
		defer done()
	}
	from.withTokenInfo(func(w http.ResponseWriter, r *http.Request) { answer(w, r, m) }).ServeHTTP(w, r)
}

// callHeader says by which id logs know a call of a tool, in the response over HTTP: a model reads nothing of it. The request
// has the same id when it comes to the SDK, which hands its headers to the call, but not its context if there is a session.
const callHeader = "Onecall-Chain"

// withoutSession serves a request of a client without sessions. Once the server closes it is answered 503 before anything of it
// is done, so that a balancer may send it to another replica, which it must not with one that was begun. Notifications, answers
// to what a running call has asked, and the end of a session are always let in.
func (s *Server) withoutSession(next http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	switch {
	case m.isStream: // which ends with the server, and is not waited for
		if s.calls.ending() {
			refuseEnding(w, m)
			return
		}
	case r.Method == http.MethodPost && m.id != "" && m.method != "":
		leave, ok := s.calls.begin(&s.calls.requests, false)
		if !ok {
			refuseEnding(w, m)
			return
		}
		defer leave()
		m.from.admitted = true
	}
	next.ServeHTTP(w, r)
}

// inSession serves a request of a client with sessions.
func (s *Server) inSession(next http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	id, from := r.Header.Get(sessionHeader), m.from
	n := s.byID(id)
	switch {
	case id != "" && (n == nil || n.Caller.ID != from.ID || n.Caller.Rights != from.Rights):
		s.noSession(w, from) // of another caller, or of the caller with other rights: answered like one that does not exist
	case id != "" || r.Method != http.MethodPost:
		if r.Method == http.MethodDelete && n != nil {
			n.cancelCalls(sessionEnded()) // the end of a session waits for its calls
		}
		if r.Method == http.MethodPost && n != nil {
			n.note(1) // before the look: who ends the session waits for this request, or the look finds that it has ended
			defer n.note(-1)
			if n.ctx.Err() != nil {
				s.noSession(w, from)
				return
			}
		}
		next.ServeHTTP(w, r)
	case s.calls.ending():
		refuseEnding(w, m)
	case m.body != nil && m.method != "initialize" && knowsSessions(r): // what is no JSON, or no version, is refused as such
		http.Error(w, "the header "+sessionHeader+" is missing: begin with initialize, and send what its answer has there", http.StatusBadRequest)
	default:
		reserved, ok := s.reserve(from.Caller)
		if !ok {
			s.logRefused(from, reasonSession)
			w.Header().Set("Retry-After", "60")
			http.Error(w, "too many sessions: end one, or come again later", http.StatusServiceUnavailable)
			return
		}
		defer reserved.free()
		from.reservation = reserved
		next.ServeHTTP(w, r)
	}
}

// stream answers a request by a stream that stays open. It does not outlive the rights of its caller.
func (s *Server) stream(next http.Handler, from *identity) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end, refused := s.endWithRights(r.Context(), from)
		defer end()
		if refused != nil {
			s.noSession(w, from)
			return
		}
		if !from.Expires.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, from.Expires)
			defer cancel()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// noSession answers that there is no such session.
func (s *Server) noSession(w http.ResponseWriter, from *identity) {
	s.logRefused(from, reasonSession)
	http.Error(w, "session not found", http.StatusNotFound)
}

// sessionHeader names a client's session.
const sessionHeader = "Mcp-Session-Id"

// knowsSessions reports whether a client names a version of MCP that has sessions, or none.
func knowsSessions(r *http.Request) bool {
	version := r.Header.Get("Mcp-Protocol-Version")
	return version == "" || slices.Contains(protocol.Versions, version)
}
