package transport

import (
	"net/http"
	"time"
)

// How long a client may take nothing of an answer, and to send a message.
const (
	writeTime = 30 * time.Second
	readTime  = time.Minute
)

// writer gives each piece of an answer its own time: a client that takes nothing is let go, one that is slow is not.
type writer struct{ http.ResponseWriter }

// piece is how many bytes a client has writeTime for: 2 KiB a second are the least.
const piece = 64 << 10

func (w *writer) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime)) // net/http's own writers have one
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (n int, err error) {
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
	w.extend()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
