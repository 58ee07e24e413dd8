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

// decodeTime is after how long the turn of a message ends that the library keeps waiting for something else.
const decodeTime = 10 * time.Second

// inTurn has a large message decoded in its caller's turn, which ends when it has come to a face, or done is called. Where nobody has
// a token there is one caller, and no turns. ok is false where the client has left meanwhile.
func (s *Server) inTurn(ctx context.Context, m *message) (done func(), ok bool) {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	if len(m.body) < heavyMessage || v == nil || v.token == "" {
		m.held()
		return func() {}, true
	}
	turn, err := s.o().Engine.Turn(ctx, v.ID)
	if err != nil {
		return nil, false
	}
	decoded := sync.OnceFunc(func() {
		turn.Done()
		m.held()
	})
	v.decoded = decoded
	bound := time.AfterFunc(s.decodeTime, decoded)
	return func() {
		bound.Stop()
		decoded()
	}, true
}

// turned serves requests whose messages are decoded in turns.
func (s *Server) turned(then func(http.ResponseWriter, *http.Request, *message)) func(http.ResponseWriter, *http.Request, *message) {
	return func(w http.ResponseWriter, r *http.Request, m *message) {
		done, ok := s.inTurn(r.Context(), m)
		if !ok {
			return
		}
		defer done()
		then(w, r, m)
	}
}
