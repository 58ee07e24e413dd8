package transport

import (
	"net/http"
	"time"
)

// writeTimeout bounds how long a client takes to read one chunk of an answer. How long it may take to send a message: bodyTimeout.
const writeTimeout = 30 * time.Second

// writer gives each chunk of an answer its own deadline, so that a slow client is served and one that has stopped reading is not.
type writer struct{ http.ResponseWriter }

// writeChunk is how many bytes a client must read within writeTimeout, which makes at least 2 KiB a second.
const writeChunk = 64 << 10

func (w *writer) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout)) // supported by net/http's writers
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (n int, err error) {
	for whole := undisguised(p); ; {
		w.extend()
		m, err := w.ResponseWriter.Write(whole[n:min(n+writeChunk, len(whole))])
		switch n += m; {
		case err != nil:
			return min(n, len(p)), err
		case n >= len(whole):
			return len(p), nil
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
