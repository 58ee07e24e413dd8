package mcp

import (
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/fault"
)

// TestAcquireAfterALostStart: a call that misses both a failed start and the loss of the next connection waits for another start.
func TestAcquireAfterALostStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(Options{Name: "shelf"})
		ended := make(chan *fault.Error, 1)
		go func() {
			_, f := s.acquire(t.Context())
			ended <- f
		}()
		synctest.Wait()
		s.mu.Lock() // what recordFailure, publish and drop do before the call sees any of it
		s.failedStarts++
		s.failure, s.conn = nil, nil
		s.broadcast()
		s.mu.Unlock()
		synctest.Wait()
		select {
		case f := <-ended:
			t.Fatalf("got %v, want the call to wait for another start", f)
		default:
		}
		s.recordFailure(s.unavailable("down"))
		if f := <-ended; f == nil || f.Code != fault.Unavailable || f.Outcome != fault.NotSent {
			t.Errorf("got %+v, want unavailable and not_sent", f)
		}
	})
}
