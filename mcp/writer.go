package mcp

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"
)

// How long a client may take nothing of an answer, and to send a message.
const (
	writeTime = 30 * time.Second
	readTime  = time.Minute
)

// patiently has requests come in in time, and gives clients that take something of their answers the time that they need.
func (s *Server) patiently(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // also where nobody reads it: net/http waits for its end
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.readTime)) // it is there with net/http's own connections
		}
		patient := &patientWriter{w}
		defer patient.extend() // for what net/http writes at the end
		next.ServeHTTP(patient, r)
	})
}

// patientWriter gives each piece of an answer its own time: a client that takes nothing is let go, one that is slow is not.
type patientWriter struct{ http.ResponseWriter }

// piece is how many bytes a client has writeTime for: 2 KiB a second are the least.
const piece = 64 << 10

func (w *patientWriter) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime)) // it is there with net/http's own writers
}

// Write implements http.ResponseWriter.
func (w *patientWriter) Write(p []byte) (n int, err error) {
	for {
		w.extend()
		m, err := w.ResponseWriter.Write(p[n:min(n+piece, len(p))])
		if n += m; err != nil || n >= len(p) {
			return n, err
		}
	}
}

// Flush implements http.Flusher.
func (w *patientWriter) Flush() {
	w.extend()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// tally counts the request that it answers as one of its caller's where that is refused before its method is looked at: attend
// counts all others. Where that is one too many, the answer says so.
type tally struct {
	http.ResponseWriter
	server  *Server
	visitor *visitor
	ctx     context.Context
	begun   bool // the answer's status is written
	drops   bool // another answer was written in its place
}

// WriteHeader implements http.ResponseWriter.
func (t *tally) WriteHeader(status int) {
	if t.begun {
		return
	}
	if t.begun = status >= http.StatusOK; status < http.StatusBadRequest || status == http.StatusTooManyRequests || t.visitor.attended.Load() {
		t.ResponseWriter.WriteHeader(status)
		return
	}
	wait := t.server.take(t.ctx, "", t.visitor.Caller)
	if wait <= 0 {
		t.ResponseWriter.WriteHeader(status)
		return
	}
	t.drops = true
	t.server.turnAway(t.ResponseWriter, wait)
}

// turnAway answers a request that was one too many, and may come again after wait.
func (s *Server) turnAway(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	http.Error(w, s.tooOften(wait).Message, http.StatusTooManyRequests)
}

// Write implements http.ResponseWriter.
func (t *tally) Write(p []byte) (int, error) {
	t.begun = true
	if t.drops {
		return len(p), nil
	}
	return t.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (t *tally) Flush() {
	t.begun = true
	_ = http.NewResponseController(t.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (t *tally) Unwrap() http.ResponseWriter { return t.ResponseWriter }
