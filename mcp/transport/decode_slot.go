package transport

import (
	"context"
	"sync"
	"time"
)

// heavyMessage is the size from which decoding a message needs a slot: the SDK decodes a message several times before the handler
// sees it, which takes 0.1 s per megabyte.
const heavyMessage = 256 << 10

// maxDecodeTime bounds how long a message holds its decoding slot while the SDK makes it wait for something else.
const maxDecodeTime = 10 * time.Second

// acquireDecoding acquires a slot for decoding a large message. The slot is released when the message reaches Receive, when done
// is called, or after maxDecodeTime. It returns false if the client has left.
func (s *Server) acquireDecoding(ctx context.Context, m *message) (done func(), ok bool) {
	release, err := s.handler.Acquire(ctx, m.from.ID)
	if err != nil {
		return nil, false
	}
	releaseSlot := sync.OnceFunc(func() {
		release()
		m.release()
	})
	m.from.releaseSlot = releaseSlot
	bound := time.AfterFunc(maxDecodeTime, releaseSlot)
	return func() {
		bound.Stop()
		releaseSlot()
	}, true
}
