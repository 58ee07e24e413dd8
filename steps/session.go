package steps

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Session holds values of one client between requests, such as which functions it has called. The server creates one for
// each client, and ends it with the client. The zero value is an empty session. Many goroutines may use it. It must not be copied.
type Session struct {
	mu     sync.Mutex
	values map[any]any
	ended  bool
}

// SessionEnder is a value of a session that is told when the session ends.
type SessionEnder interface {
	// SessionEnded is called once. Calls of the session may still be running.
	SessionEnded()
}

// End tells the values that the session has ended, and later ones at once. It is called once.
func (s *Session) End() {
	s.mu.Lock()
	s.ended = true
	values := slices.Collect(maps.Values(s.values))
	s.mu.Unlock()
	for _, value := range values {
		if value, ok := value.(SessionEnder); ok {
			value.SessionEnded()
		}
	}
}

// Value returns the value of a key; if there is none, make creates it. make must not use the session. As in a context, each package uses
// its own key type. A value lives as long as the session, and the package that created it bounds its size.
func (s *Session) Value(key any, make func() any) any {
	value, isLate := s.valueOf(key, make)
	if late, ok := value.(SessionEnder); ok && isLate { // it may take its time, and others of the session do not wait for it
		late.SessionEnded()
	}
	return value
}

// valueOf reports also whether the value was made after the end of the session.
func (s *Session) valueOf(key any, make func() any) (value any, isLate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.values[key]; ok {
		return value, false
	}
	if s.values == nil {
		s.values = map[any]any{}
	}
	value = make()
	s.values[key] = value
	return value, s.ended
}

type sessionKey struct{}

// WithSession returns a context whose calls belong to the session s.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionOf returns the session that ctx carries; nil if there is none.
func SessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}
