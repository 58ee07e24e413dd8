package mcp

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
)

// announceList notes that the server says that its list of tools has changed, in the order of its messages, and has the list read again.
func (s *Source) announceList() {
	s.mu.Lock()
	s.announced++
	s.mu.Unlock()
	signal(s.relist)
}

// Settle waits until Functions has what the server would list now, as far as it says: until it is connected, and until a list that it has
// announced before has been read. It fails if that list could not be read, which is tried again.
func (s *Source) Settle(ctx context.Context) error {
	conn, f := s.acquire(ctx)
	if f != nil {
		return nil //nolint:nilerr // there is no connection: the call itself says why
	}
	defer s.release(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.announced
	for s.listed < wanted {
		switch {
		case s.closed || s.conn != conn:
			return nil // the next connection lists the tools again, and calls on this one fail
		case s.listFailure != nil:
			f := *s.listFailure
			f.Outcome = fault.NotSent
			signal(s.relist)
			return &f
		}
		changed := s.stateChanged
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return stopped(ctx, s.options.Name+" had not listed its tools again", fault.NotSent)
		}
	}
	return nil
}

// listEnded notes that the list was read that was announced n times, or why it was not.
func (s *Source) listEnded(n int, why *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listFailure = why; why == nil {
		s.listed = max(s.listed, n)
	}
	s.broadcast()
}
