package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Of messages that are being read or decoded: up to small bytes none is counted, and all others together have at most maxReading, or four
// times the longest that may be sent if that is more. Of that a caller has at most as much as it leaves to others: a caller that
// sends slowly has its own messages refused, and nobody else's.
const (
	small      = 64 << 10
	maxReading = 256 << 20
)

// envelopeSize is what a request may have beside the arguments of a tool.
const envelopeSize = 64 << 10

// readMessage reads the message that a request carries, and answers one that is none: what is told of a bad message must not
// depend on who reads it.
func (s *Server) readMessage(w http.ResponseWriter, r *http.Request, m *message) (good bool) {
	if r.Method != http.MethodPost || !isJSON(r.Header.Get("Content-Type")) {
		return true // which is refused in its turn
	}
	most := s.o().MaxRequestBytes + envelopeSize
	if r.ContentLength > small || r.ContentLength < 0 {
		size := most
		if r.ContentLength > 0 {
			size = min(r.ContentLength, most)
		}
		all := max(maxReading, 4*min(most, math.MaxInt64/4))
		size = min(size, all/4)
		if !s.reading.Hold(m.from.ID, size, all) {
			s.tooBusy(w, m.from, "too much is being sent at once: try again in a moment")
			return false
		}
		m.release = sync.OnceFunc(func() { s.reading.Hold(m.from.ID, -size, all) })
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		s.logRefused(m.from, reasonSize)
		http.Error(w, fmt.Sprintf("the message is longer than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return false
	}
	if err != nil {
		http.Error(w, "the message could not be read", http.StatusBadRequest)
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the answer may take longer
	read, wrong := examine(body)
	switch wrong {
	case nil:
	case nullIDError:
		w.WriteHeader(http.StatusAccepted)
		return false
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(wrong.answer()) // a client that does not take it is gone
		return false
	}
	m.body, m.envelope, r.Body = body, read, io.NopCloser(bytes.NewReader(body))
	return true
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, _ := mime.ParseMediaType(contentType) // what is malformed is no JSON
	return kind == "application/json"
}

// tooBusy refuses a request of a caller that has too much under way.
func (s *Server) tooBusy(w http.ResponseWriter, from *identity, why string) {
	s.logRefused(from, reasonBusy)
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusTooManyRequests)
}

// reject refuses a request before it is known who has sent it.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	reason := reasonRequest
	if f.Code == fault.Denied {
		reason = reasonHost
	}
	s.logRejected(r, reason, f)
	http.Error(w, f.Message, f.Code.HTTP())
}
