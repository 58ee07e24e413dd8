package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

// freeBytes of each exchange are not counted: most chains never need more.
const freeBytes = 64 << 10

// heavyBytes is from how many bytes on that it works through a piece of work waits for the caller's turn.
const heavyBytes = 1 << 20

// turn waits until it is the caller's turn to work through n bytes; done ends it. Where ctx ends first it does not wait any
// longer: an answer is due all the same.
func (s *exchange) turn(ctx context.Context, n int) (done func()) {
	if n < heavyBytes {
		return func() {}
	}
	done, err := s.part.Turn(ctx)
	if err != nil {
		return func() {}
	}
	return done
}

// hold takes bytes of what all running chains share, for a result or for arguments. What was taken is the caller's until the
// exchange ends.
func (s *exchange) hold(n int) *fault.Error {
	over := s.used.Add(int64(n)) - freeBytes - s.held.Load()
	if over <= 0 {
		return nil
	}
	if s.part.Hold(over) {
		s.held.Add(over)
		return nil
	}
	s.used.Add(int64(-n))
	return fault.New(fault.Busy, "%d more bytes are too many beside what your chains and those of others hold while they run (limits.maxRunningBytes): send it again when others have ended, or select less", n)
}

// spared tells that n bytes are not needed any more; the next that are wanted take their place.
func (s *exchange) spared(n int) { s.used.Add(int64(-n)) }

// release gives back what the exchange holds.
func (s *exchange) release() { s.part.Release(s.held.Load()) }

// reads is how many bytes of results the references of a template walk through.
func reads(uses []refs.Use, scope *refs.Scope) (n int) {
	for i := range uses {
		switch u := &uses[i]; u.Root {
		case refs.RootStep:
			n += len(scope.Steps[u.Step].Raw)
		case refs.RootItem:
			n += len(scope.Item)
		}
	}
	return n
}
