package transport

import (
	"context"
	"sync"
	"time"
)

// heavyMessage is from how many bytes on a message is heavy work: the protocol's library decodes it several times before it comes
// to the handler, 0.1 s for each megabyte.
const heavyMessage = 256 << 10

// decodeTime is after how long the turn of a message ends that the library keeps waiting for something else.
const decodeTime = 10 * time.Second

// inTurn has a large message decoded in its caller's turn, which ends when it has come to Receive, or done is called. If nobody has
// a token there is one caller, and no turns. ok is false if the client has left meanwhile.
func (s *Server) inTurn(ctx context.Context, m *message, from *identity) (done func(), ok bool) {
	if len(m.body) < heavyMessage || from.token == "" {
		m.held()
		return func() {}, true
	}
	end, err := s.handler.Turn(ctx, from.ID)
	if err != nil {
		return nil, false
	}
	decoded := sync.OnceFunc(func() {
		end()
		m.held()
	})
	from.decoded = decoded
	bound := time.AfterFunc(s.decodeTime, decoded)
	return func() {
		bound.Stop()
		decoded()
	}, true
}
