package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
)

// Path is where MCP is served over HTTP.
const Path = "/mcp"

// statelessVersion is the first version of MCP without sessions (2026-07-28, SEP-2567 and SEP-2575).
const statelessVersion = "2026-07-28"

// ServeHTTP serves MCP's Streamable HTTP transport to all who connect to l, until ctx is done; then running calls have
// Grace to end. It closes l. Clients of a version without sessions and those with sessions come to the same URL. A
// client chooses another surface than the server's by the query: /mcp?surface=flat.
//
// Only loopback listeners are served, and only requests whose Host and Origin are loopback too (denied): every caller
// has the same rights.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, a Access) error {
	if !isLoopback(l.Addr().String()) {
		l.Close()
		return fault.New(fault.BadRequest, "%s is no loopback address: without tokens for its callers onecall serves this machine only", l.Addr())
	}
	server := &http.Server{
		Handler:           s.httpHandler(a),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	case <-ctx.Done():
	}
	s.calls.drain(s.o.Grace)
	s.endSessions(nil)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // who does not take the end of its answer is left
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving MCP over HTTP: %w", err)
	}
	return nil
}

// httpHandler answers all requests of one door.
func (s *Server) httpHandler(a Access) http.Handler {
	options := sdk.StreamableHTTPOptions{
		Logger:                       s.o.Log,
		SessionTimeout:               s.o.SessionTimeout,
		MaxRequestBodyBytes:          s.o.MaxRequestBytes + envelope,
		PropagateRequestCancellation: true,
	}
	stateful := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if f := s.faceOf(r, a); f != nil {
			return f.stateful
		}
		return nil
	}, &options)
	without := options
	without.Stateless = true
	stateless := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if f := s.faceOf(r, a); f != nil {
			return f.stateless
		}
		return nil
	}, &without)
	mux := http.NewServeMux()
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Mcp-Session-Id")
		switch {
		case !s.readMessage(w, r):
		case s.o.Stateless || withoutSessions(r):
			stateless.ServeHTTP(w, r)
		case r.Method == http.MethodPost && id == "" && s.calls.ending():
			http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		case r.Method == http.MethodPost && id == "" && !s.room():
			w.Header().Set("Retry-After", "60")
			http.Error(w, "too many sessions: end one, or come again later", http.StatusServiceUnavailable)
		default:
			if r.Method == http.MethodDelete {
				if n := s.byID(id); n != nil {
					n.cut(sessionEnded()) // the end of a session waits for its calls
				}
			}
			stateful.ServeHTTP(w, r)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.admit(r, a); f != nil {
			http.Error(w, f.Message, f.Code.HTTP())
			return
		}
		mux.ServeHTTP(&patientWriter{ResponseWriter: w}, r)
	})
}

// readMessage reads the message that a request carries, and answers one that is none: what is told of a bad message must not
// depend on who reads it.
func (s *Server) readMessage(w http.ResponseWriter, r *http.Request) (good bool) {
	if r.Method != http.MethodPost || !isJSON(r.Header.Get("Content-Type")) {
		return true // which is refused in its turn
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTime)) // it is there with net/http's own connections
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxRequestBytes+envelope))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("the message is longer than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return false
	}
	if err != nil {
		http.Error(w, "the message could not be read", http.StatusBadRequest)
		return false
	}
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
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, _ := mime.ParseMediaType(contentType) // what is malformed is no JSON
	return kind == "application/json"
}

// envelope is what a request may have beside the arguments of a tool.
const envelope = 64 << 10

// withoutSessions tells whether a client speaks a version of MCP that has no sessions. Versions are dates, and compare as
// text.
func withoutSessions(r *http.Request) bool {
	version := r.Header.Get("Mcp-Protocol-Version")
	_, err := time.Parse(time.DateOnly, version)
	return err == nil && version >= statelessVersion
}

// admit says why a request is not answered: it was sent to another host, or by a page of another site (DNS rebinding,
// cross-site requests), or asks for a surface that there is not.
func (s *Server) admit(r *http.Request, _ Access) *fault.Error {
	if !isLoopback(r.Host) {
		return fault.New(fault.Denied, "the host %.100q is not served here: use localhost or 127.0.0.1", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Host == "" || !isLoopback(from.Host) {
			return fault.New(fault.Denied, "requests of pages from %.100q are not answered", origin)
		}
	}
	if word := surfaceWord(r); word != "" {
		if _, err := ParseSurface(word); err != nil {
			f, _ := fault.As(err)
			return f
		}
	}
	return nil
}

// surfaceWord is the surface that a request asks for; "": the server's.
func surfaceWord(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get("surface")
}

// faceOf is the face that a request is answered by; nil where it asks for a surface that there is not.
func (s *Server) faceOf(r *http.Request, a Access) *face {
	surface := s.o.Surface
	if word := surfaceWord(r); word != "" {
		parsed, err := ParseSurface(word)
		if err != nil {
			return nil
		}
		surface = parsed
	}
	return s.face(a, surface)
}

// isLoopback tells whether a host, with or without a port, is this machine by name or address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// patientWriter gives each write of an answer its own time: a client that takes nothing is let go.
type patientWriter struct{ http.ResponseWriter }

// How long a client may take nothing of an answer, and to send a message.
const (
	writeTime = 30 * time.Second
	readTime  = time.Minute
)

// Write implements http.ResponseWriter.
func (w *patientWriter) Write(p []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime)) // it is there with net/http's own writers
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *patientWriter) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
