package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/internal/protocol"
)

// Path is where MCP is served over HTTP.
const Path = "/mcp"

// ServeHTTP serves MCP's Streamable HTTP transport to all who connect to l, until ctx is done; then running calls have
// Grace to end. It closes l. Clients of a version without sessions and those with sessions come to the same URL. A
// client chooses another surface than the server's by the query: /mcp?surface=flat. Beside it /healthz tells that the
// process serves, /readyz whether it is ready, and the metadata of a protected resource (RFC 9728) where a client gets a
// token.
//
// A Server has one door over HTTP: a second call takes the place of the first's.
//
// Where the door's callers have no tokens, only a loopback listener is served (denied): every caller has the same rights then.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, door *Door) error {
	if door.Callers == nil && !loopback.Is(withoutPort(l.Addr().String())) {
		l.Close()
		return fault.New(fault.Denied, "%s is no loopback address: without tokens for its callers onecall serves this machine only", l.Addr())
	}
	s.SetDoor(door)
	var fresh newcomers
	server := &http.Server{
		Handler:           fresh.heard(s.httpHandler()),
		ConnContext:       fresh.came,
		ConnState:         fresh.went,
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
	s.cutStreams(func(*stream) bool { return true })
	_ = l.Close()
	err := <-failed
	fresh.await(s.awaitTime)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // who does not take the end of its answer is left
	}
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	}
	return nil
}

// httpHandler answers all requests.
func (s *Server) httpHandler() http.Handler {
	protocol := s.protocol()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", s.ready)
	mux.HandleFunc(metadataPath, s.metadata)
	mux.HandleFunc(metadataPath+"/", s.metadata)
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) { s.welcome(w, r, protocol) })
	return s.patiently(mux)
}

// message is what a request asks for.
type message struct {
	body   []byte // of a POST
	method string // of MCP, "" where there is no body
	held   func() // gives back what is counted of it (see small), until it is decoded
	lasts  bool   // the answer is a stream that stays open
}

// begins tells whether a message begins a session.
func (m *message) begins() bool { return m.method == "initialize" }

// welcome finds out who has sent a request and reads it; what it asks for is done by then for whoever may.
func (s *Server) welcome(w http.ResponseWriter, r *http.Request, then func(http.ResponseWriter, *http.Request, *message)) {
	door := s.door.Load()
	if f := door.admit(r); f != nil {
		reason := RefusedRequest
		if f.Code == fault.Denied {
			reason = RefusedHost
		}
		s.turnedAway(r, reason, f)
		http.Error(w, f.Message, f.Code.HTTP())
		return
	}
	v := s.identify(door, w, r)
	if v == nil {
		return
	}
	r = v.in(r)
	plain, counted := w, &tally{ResponseWriter: w, server: s, visitor: v, ctx: r.Context()}
	w = counted
	leave, ok := s.callers.visit(v.ID, s.visitsEach())
	if !ok {
		s.tooBusy(w, r, "too many of your requests are under way: wait until one is answered")
		return
	}
	defer leave()
	m := &message{held: func() {}, lasts: r.Method == http.MethodGet}
	defer func() { m.held() }()
	if !s.readMessage(w, r, m) {
		return
	}
	m.method = gjson.GetBytes(m.body, "method").Str
	m.lasts = m.lasts || m.method == "subscriptions/listen"
	if !s.sentSoon(v) { // it may have taken its time to send all of it
		if v = s.identify(s.door.Load(), plain, r); v == nil {
			return
		}
		r, counted.visitor = v.in(r), v
	}
	admitted(v, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { then(w, r, m) })).ServeHTTP(w, r)
}

// visitsEach is how many requests of a caller may be under way: its calls, a stream for each of its sessions, and some to
// ask of what there is. -1: any number.
func (s *Server) visitsEach() int {
	o := s.o()
	if o.Limits.Calls < 0 || o.Limits.Sessions < 0 {
		return -1
	}
	calls, sessions := DefaultCallerCalls, s.sessionsEach()
	if sessions == 0 { // all clients are one caller
		calls, sessions = DefaultCalls, o.MaxSessions
	}
	return cmp.Or(o.Limits.Calls, calls) + sessions + 100
}

func (s *Server) tooBusy(w http.ResponseWriter, r *http.Request, why string) {
	s.refused(r.Context(), RefusedRate, s.callerIn(r.Context()))
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusTooManyRequests)
}

// protocol answers the requests of visitors.
func (s *Server) protocol() func(http.ResponseWriter, *http.Request, *message) {
	o := s.o()
	options := sdk.StreamableHTTPOptions{
		Logger:                       quietly(o.Log),
		SessionTimeout:               o.SessionTimeout,
		MaxRequestBodyBytes:          -1, // messages are read before the protocol's library sees them
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true, // the door knows the hosts
	}
	stateful := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return s.faceOf(r).stateful }, &options)
	options.Stateless = true
	stateless := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return s.faceOf(r).stateless }, &options)
	return s.decoding(func(w http.ResponseWriter, r *http.Request, m *message) {
		s.named(w, r, m)
		alone := o.Stateless || withoutSessions(r)
		if !alone {
			s.ownSession(stateful, w, r, m)
			return
		}
		r, end, ok := s.begun(w, r, m)
		if !ok {
			return
		}
		defer end()
		s.serve(stateless, w, r, m)
	})
}

// ownSession serves a client whose session is of this process alone.
func (s *Server) ownSession(next http.Handler, w http.ResponseWriter, r *http.Request, m *message) {
	id := r.Header.Get(sessionHeader)
	n := s.byID(id)
	switch {
	case id != "" && !s.owns(n, r):
		s.noSession(w, r) // of another caller, or of what the caller was: not told from one that there is not
	case id != "" || r.Method != http.MethodPost:
		if r.Method == http.MethodDelete && n != nil {
			n.cut(sessionEnded()) // the end of a session waits for its calls
		}
		if r.Method == http.MethodPost && n != nil {
			n.note(1) // before the look: who ends the session waits for this request, or the look finds that it has ended
			defer n.note(-1)
			if n.ctx.Err() != nil {
				s.noSession(w, r)
				return
			}
		}
		s.serve(next, w, r, m)
	case s.calls.ending():
		s.sendAway(w, r, m)
	case m.body != nil && !m.begins() && knowsSessions(r): // what is no JSON, or no version, is refused as such
		http.Error(w, "the header "+sessionHeader+" is missing: begin with initialize, and send what its answer has there", http.StatusBadRequest)
	default:
		place, ok := s.reserve(s.callerIn(r.Context()))
		if !ok {
			s.fullUp(w, r, "too many sessions: end one, or come again later")
			return
		}
		defer place.free()
		s.serve(next, w, r.WithContext(context.WithValue(r.Context(), placeKey{}, place)), m)
	}
}

// owns tells whether a session is that of the caller who has sent a request, with the rights that it has now.
func (s *Server) owns(n *session, r *http.Request) bool {
	if n == nil {
		return false
	}
	caller := s.callerIn(r.Context())
	return n.caller.ID == caller.ID && n.face.rights == settled(caller.Rights)
}

func (s *Server) noSession(w http.ResponseWriter, r *http.Request) {
	s.refused(r.Context(), RefusedSession, s.callerIn(r.Context()))
	http.Error(w, "session not found", http.StatusNotFound)
}

func (s *Server) fullUp(w http.ResponseWriter, r *http.Request, why string) {
	s.refused(r.Context(), RefusedSession, s.callerIn(r.Context()))
	w.Header().Set("Retry-After", "60")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// sessionHeader names a client's session.
const sessionHeader = "Mcp-Session-Id"

// readMessage reads the message that a request carries, and answers one that is none: what is told of a bad message must not
// depend on who reads it.
func (s *Server) readMessage(w http.ResponseWriter, r *http.Request, m *message) (good bool) {
	if r.Method != http.MethodPost || !isJSON(r.Header.Get("Content-Type")) {
		return true // which is refused in its turn
	}
	most := s.o().MaxRequestBytes + envelope
	if r.ContentLength > small || r.ContentLength < 0 {
		size := most
		if r.ContentLength > 0 {
			size = min(r.ContentLength, most)
		}
		all := max(maxReading, 4*min(most, math.MaxInt64/4))
		size = min(size, all/4)
		caller := s.callerIn(r.Context()).ID
		if !s.reading.Hold(caller, size, all) {
			s.tooBusy(w, r, "too much is being sent at once: try again in a moment")
			return false
		}
		m.held = sync.OnceFunc(func() { s.reading.Hold(caller, -size, all) })
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		s.refused(r.Context(), RefusedSize, s.callerIn(r.Context()))
		http.Error(w, fmt.Sprintf("the message is longer than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return false
	}
	if err != nil {
		http.Error(w, "the message could not be read", http.StatusBadRequest)
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the answer may take longer
	switch wrong := examine(body); wrong {
	case nil:
	case stray:
		w.WriteHeader(http.StatusAccepted)
		return false
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(wrong.answer()) // who does not take it is gone
		return false
	}
	m.body, r.Body = body, io.NopCloser(bytes.NewReader(body))
	return true
}

// Of messages that are being read or decoded: up to small bytes none is counted, and all others together have at most maxReading, or four
// times the longest that may be sent where that is more. Of that a caller has at most as much as it leaves to others: who
// sends slowly has itself refused, and nobody else.
const (
	small      = 64 << 10
	maxReading = 256 << 20
)

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, _ := mime.ParseMediaType(contentType) // what is malformed is no JSON
	return kind == "application/json"
}

// envelope is what a request may have beside the arguments of a tool.
const envelope = 64 << 10

// withoutSessions reports whether a client speaks a version of MCP that has no sessions.
func withoutSessions(r *http.Request) bool {
	return !protocol.HasSessions(r.Header.Get("Mcp-Protocol-Version"))
}

// knowsSessions reports whether a client names a version of MCP that has sessions, or none.
func knowsSessions(r *http.Request) bool {
	version := r.Header.Get("Mcp-Protocol-Version")
	return version == "" || slices.Contains(protocol.Versions, version)
}

// surfaceWord is the surface that a request asks for; "": the server's.
func surfaceWord(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get("surface")
}

// faceOf is the face that a request is answered by. What the request asks for was looked at when it was admitted.
func (s *Server) faceOf(r *http.Request) *face {
	surface := s.o().Surface
	if parsed, err := ParseSurface(surfaceWord(r)); err == nil {
		surface = parsed
	}
	return s.face(s.callerIn(r.Context()).Rights, surface)
}
