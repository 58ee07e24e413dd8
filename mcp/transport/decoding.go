package transport

import (
	"context"
	"sync"
	"time"
)

// heavyMessage is from how many bytes on a message is heavy work: the protocol's library decodes it several times before it comes
// to the handler, 0.1 s for each megabyte.
const heavyMessage = 256 << 10

// decodeTime is after how long the slot of a message is released that the library keeps waiting for something else.
const decodeTime = 10 * time.Second

// decode acquires a slot for decoding a large message. It is released when the message has come to Receive, or done is called.
// ok is false if the client has left meanwhile.
func (s *Server) decode(ctx context.Context, m *message) (done func(), ok bool) {
	release, err := s.handler.Acquire(ctx, m.from.ID)
	if err != nil {
		return nil, false
	}
	decoded := sync.OnceFunc(func() {
		release()
		m.release()
	})
	m.from.decoded = decoded
	bound := time.AfterFunc(s.decodeTime, decoded)
	return func() {
		bound.Stop()
		decoded()
	}, true
}
