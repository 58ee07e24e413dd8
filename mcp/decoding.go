package mcp

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// heavyMessage is from how many bytes on a message is heavy work: the protocol's library decodes it several times before it comes
// to a face, 0.1 s for each megabyte.
const heavyMessage = 256 << 10

// decodeTime is after how long the slot of a message is released that the library keeps waiting for something else.
const decodeTime = 10 * time.Second

// admitted acquires a slot for decoding a large message. It is released when the message has come to a face, or done is called.
// Without tokens there is one caller, who needs none. ok is false if the client has left meanwhile.
func (s *Server) admitted(ctx context.Context, m *message) (done func(), ok bool) {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	if len(m.body) < heavyMessage || v == nil || v.token == "" {
		m.held()
		return func() {}, true
	}
	release, err := s.o().Engine.Acquire(ctx, v.ID)
	if err != nil {
		return nil, false
	}
	decoded := sync.OnceFunc(func() {
		release()
		m.held()
	})
	v.decoded = decoded
	bound := time.AfterFunc(s.decodeTime, decoded)
	return func() {
		bound.Stop()
		decoded()
	}, true
}

// decoding serves requests whose messages it admits to be decoded.
func (s *Server) decoding(then func(http.ResponseWriter, *http.Request, *message)) func(http.ResponseWriter, *http.Request, *message) {
	return func(w http.ResponseWriter, r *http.Request, m *message) {
		done, ok := s.admitted(r.Context(), m)
		if !ok {
			return
		}
		defer done()
		then(w, r, m)
	}
}
