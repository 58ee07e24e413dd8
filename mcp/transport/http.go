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

// ServeHTTP serves MCP's Streamable HTTP transport on l until ctx is done; then running calls have Grace to end. It closes l.
// Clients with and without sessions use the same URL. ServeHTTP also serves /healthz (the process is alive), /readyz (it is ready for
// calls) and the protected resource metadata (RFC 9728), which tells clients where to get a token.
//
// A Server serves one listener: a second call replaces the access of the first.
//
// Without tokens all callers have the same rights, so ServeHTTP refuses a listener that is not on loopback (denied).
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, a *Access) error {
	if host, _, err := net.SplitHostPort(l.Addr().String()); a.Callers == nil && (err != nil || !loopback.Is(host)) {
		l.Close()
		return fault.New(fault.Denied, "%s is not a loopback address: without tokens for its callers onecall serves this machine only", l.Addr())
	}
	s.SetAccess(a)
	var fresh newConnections
	server := &http.Server{
		Handler:           fresh.handler(s.httpHandler()),
		ConnContext:       fresh.add,
		ConnState:         fresh.remove,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.opts().Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	case <-ctx.Done():
	}
	s.calls.Drain(s.opts().Grace)
	s.endSessions()
	s.endRequests(func(*openRequest) bool { return true })
	_ = l.Close()
	err := <-failed
	fresh.await(firstRequestWait)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // a client does not read the end of its answer
	}
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	}
	return nil
}

// httpHandler returns the handler of all requests, with time limits for reading and writing each.
func (s *Server) httpHandler() http.Handler {
	o := s.opts()
	options := sdk.StreamableHTTPOptions{
		Logger:                       SDKLog(o.Log),
		MaxRequestBodyBytes:          -1, // readMessage has bounded it
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true, // Access checks the hosts
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
		serve(s.direct(next, m), w, r, m)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", s.handleReady)
	mux.HandleFunc(metadataPath, s.handleMetadata)
	mux.HandleFunc(metadataPath+"/", s.handleMetadata)
	mux.HandleFunc(ConsolePath, s.serveConsole)
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) { s.admit(w, r, answer) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // set even if no handler reads the body: net/http waits for its end
			limit := bodyTimeout(r.ContentLength, s.opts().MaxRequestBytes+envelopeSize)
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)) // supported by net/http's connections
		}
		slowWriter := &writer{w}
		defer slowWriter.extend() // extends the deadline for what net/http writes at the end
		mux.ServeHTTP(slowWriter, r)
	})
}

// message is a request with its JSON-RPC message.
type message struct {
	envelope           // the envelope of the message in a POST body
	from     *identity // the sender
	body     []byte    // the message; nil: there is none
	release  func()    // returns the memory counted for body (see uncountedSize); may be called more than once
	isStream bool      // the response is a stream that stays open
}

// admit identifies the sender of a request, reads its message, and passes it to answer if the sender may send it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter, *http.Request, *message)) {
	access := s.access.Load()
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	if f := access.check(r, query); f != nil {
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
	done, ok := s.requests.acquire(from.ID, s.opts().Limits(access.Callers != nil).Requests)
	if !ok {
		s.tooBusy(w, from, "too many of your requests are under way: wait until one is answered")
		return
	}
	defer done()
	m := &message{from: from, release: func() {}, isStream: r.Method == http.MethodGet}
	defer func() { m.release() }()
	if !s.readMessage(w, r, m) {
		return
	}
	m.isStream = m.isStream || m.method == methodListen
	if !s.unchanged(from) { // reading may have taken long
		if from = s.identify(s.access.Load(), target, w, r); from == nil {
			return
		}
		m.from = from
	}
	r = r.WithContext(context.WithValue(r.Context(), identityKey{}, from))
	r.Header.Del(callHeader) // clients cannot choose it
	if m.method == methodCall {
		if id := s.handler.CallID(r.Context()); id != "" {
			r.Header.Set(callHeader, id)
			w.Header().Set(callHeader, id)
		}
	}
	if len(m.body) < heavyMessage || from.token == "" { // without tokens there is one caller, which needs no slot
		m.release()
	} else {
		done, ok := s.acquireDecoding(r.Context(), m)
		if !ok {
			return
		}
		defer done()
	}
	from.withTokenInfo(func(w http.ResponseWriter, r *http.Request) { answer(w, r, m) }).ServeHTTP(w, r)
}

// callHeader is the response header that carries the run id of a tool call, for logs; models do not see it. The request gets the
// same header, because in a session the SDK passes on headers but not the request's context.
const callHeader = "Onecall-Chain"

// withoutSession serves a request of a client without sessions. A closing server answers 503 before it starts any work, so a
// balancer may safely repeat the request on another replica. Notifications, responses to a running call's questions and requests
// that end a session are always admitted.
func (s *Server) withoutSession(next http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	switch {
	case m.isStream: // a stream ends with the server; shutdown does not wait for it
		if s.calls.isClosing() {
			refuseClosing(w, m)
			return
		}
	case r.Method == http.MethodPost && m.id != "" && m.method != "":
		done, ok := s.calls.track(&s.calls.requests, false)
		if !ok {
			refuseClosing(w, m)
			return
		}
		defer done()
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
		s.noSession(w, from) // other callers' sessions look like missing ones
	case id != "" || r.Method != http.MethodPost:
		if r.Method == http.MethodDelete && n != nil {
			n.cancelCalls(sessionEnded()) // ending a session waits for its calls
		}
		if r.Method == http.MethodPost && n != nil {
			n.addCalls(1) // counted before the check: either the end of the session waits for this request, or the check sees it
			defer n.addCalls(-1)
			if n.ctx.Err() != nil {
				s.noSession(w, from)
				return
			}
			if m.method == "notifications/cancelled" {
				n.cancelDirectCall(m)
			}
		}
		next.ServeHTTP(w, r)
	case s.calls.isClosing():
		refuseClosing(w, m)
	case m.body != nil && m.method != "initialize" && knowsSessions(r): // the SDK refuses bodies that are not JSON and unknown versions
		http.Error(w, "the header "+sessionHeader+" is missing: begin with initialize, and send the value that its answer has in this header",
			http.StatusBadRequest)
	default:
		reserved, ok := s.reserve(from.Caller)
		if !ok {
			s.logRefused(from, reasonSession)
			w.Header().Set("Retry-After", "60")
			http.Error(w, "too many sessions: end one, or try again later", http.StatusServiceUnavailable)
			return
		}
		defer reserved.free()
		from.reservation = reserved
		next.ServeHTTP(w, r)
	}
}

// stream serves a response that stays open, and ends it when the caller loses its rights.
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

// noSession answers that the session does not exist.
func (s *Server) noSession(w http.ResponseWriter, from *identity) {
	s.logRefused(from, reasonSession)
	http.Error(w, "session not found", http.StatusNotFound)
}

// sessionHeader carries the id of a client's session.
const sessionHeader = "Mcp-Session-Id"

// knowsSessions reports whether the request's protocol version has sessions; a missing version does.
func knowsSessions(r *http.Request) bool {
	version := r.Header.Get("Mcp-Protocol-Version")
	return version == "" || slices.Contains(protocol.Versions, version)
}
