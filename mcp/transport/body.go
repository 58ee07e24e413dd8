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

// Bounds on the memory for messages that are being read or decoded. Messages of at most uncountedSize are not counted. All others
// together may take maxReading, or four times the longest allowed message if that is more. One caller may never take more than it
// leaves to the others, so a slow sender only delays itself.
const (
	uncountedSize = 64 << 10
	maxReading    = 256 << 20
)

// envelopeSize is the allowance for the parts of a request other than the tool's arguments.
const envelopeSize = 64 << 10

// readMessage reads the message of a request into m. If the message is malformed or too long, readMessage answers it and returns
// false, so that both transports of the SDK report bad messages alike. It returns true, with m.body nil, for requests without a JSON body:
// the SDK refuses or answers them.
func (s *Server) readMessage(w http.ResponseWriter, r *http.Request, m *message) (good bool) {
	if r.Method != http.MethodPost || !isJSON(r.Header.Get("Content-Type")) {
		return true
	}
	maximum := s.opts().MaxRequestBytes + envelopeSize
	if r.ContentLength > maximum { // its end is not awaited
		w.Header().Set("Connection", "close")
		s.tooLarge(w, m.from, maximum)
		return false
	}
	if r.ContentLength > uncountedSize || r.ContentLength < 0 {
		size := maximum
		if r.ContentLength > 0 {
			size = r.ContentLength
		}
		all := max(maxReading, 4*min(maximum, math.MaxInt64/4))
		size = min(size, all/4)
		if !s.reading.Hold(m.from.ID, size, all) {
			s.tooBusy(w, m.from, "too much is being sent at once: try again in a moment")
			return false
		}
		m.release = sync.OnceFunc(func() { s.reading.Hold(m.from.ID, -size, all) })
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maximum))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		s.tooLarge(w, m.from, tooLarge.Limit)
		return false
	}
	if err != nil {
		http.Error(w, "the message could not be read", http.StatusBadRequest)
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // writing the answer may take longer
	read, wrong := parseEnvelope(body)
	switch wrong {
	case nil:
	case nullIDError:
		w.WriteHeader(http.StatusAccepted)
		return false
	default:
		refuseMessage(w, wrong)
		return false
	}
	if wrong := misnamedTask(read, body, r.Header); wrong != nil {
		refuseMessage(w, wrong)
		return false
	}
	if read.method == methodListen {
		body = keepTaskIDs(body)
	}
	m.body, m.envelope, r.Body = body, read, io.NopCloser(bytes.NewReader(body))
	return true
}

// refuseMessage answers a malformed message.
func refuseMessage(w http.ResponseWriter, wrong *badMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(wrong.answer()) // an error means that the client has left
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, _ := mime.ParseMediaType(contentType) // a malformed type is not JSON
	return kind == "application/json"
}

// tooLarge refuses a message of more than limit bytes.
func (s *Server) tooLarge(w http.ResponseWriter, from *identity, limit int64) {
	s.logRefused(from, reasonSize)
	http.Error(w, fmt.Sprintf("the message has more than %d bytes (limits.maxRequestBytes)", limit), http.StatusRequestEntityTooLarge)
}

// bodyTimeout returns how long a body may take: ten seconds, and one more for each 64 KiB of its announced length, at most an hour. A
// length that was not announced, or is more than allowed, counts as the allowed one.
func bodyTimeout(announced, allowed int64) time.Duration {
	if announced < 0 || announced > allowed {
		announced = allowed
	}
	return min(10*time.Second+time.Duration(min(announced>>16, 3600))*time.Second, time.Hour)
}

// tooBusy refuses a request of a caller that has too much in progress.
func (s *Server) tooBusy(w http.ResponseWriter, from *identity, why string) {
	s.logRefused(from, reasonBusy)
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusTooManyRequests)
}

// reject refuses a request whose sender is not identified yet.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	reason := reasonRequest
	if f.Code == fault.Denied {
		reason = reasonHost
	}
	s.logRejected(r, reason, f)
	http.Error(w, f.Message, f.Code.HTTP())
}
