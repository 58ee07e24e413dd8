package transport

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

// writer gives each piece of an answer its own time: a client that takes nothing is let go, one that is slow is not. It counts
// the request that it answers as one of its caller's if that is refused before Receive: Receive counts all others. If that is one
// too many, the answer says so.
type writer struct {
	http.ResponseWriter
	server *Server
	from   *identity // nil: nobody is counted
	begun  bool      // the answer's status is written
	drops  bool      // another answer was written in its place
}

// piece is how many bytes a client has writeTime for: 2 KiB a second are the least.
const piece = 64 << 10

func (w *writer) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime)) // net/http's own writers have one
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.begun {
		return
	}
	w.begun = status >= http.StatusOK
	if from := w.from; from != nil && status >= http.StatusBadRequest && status != http.StatusTooManyRequests && !from.counted.Load() {
		if wait := w.server.takeFor(context.Background(), from.ID, &from.sender); wait > 0 {
			w.drops = true
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w.ResponseWriter, w.server.tooOften(wait).Message, http.StatusTooManyRequests)
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (n int, err error) {
	w.begun = true
	if w.drops {
		return len(p), nil
	}
	for {
		w.extend()
		m, err := w.ResponseWriter.Write(p[n:min(n+piece, len(p))])
		if n += m; err != nil || n >= len(p) {
			return n, err
		}
	}
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	w.begun = true
	w.extend()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
