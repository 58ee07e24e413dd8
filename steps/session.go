package steps

import (
	"context"
	"sync"
)

// Session holds values of one client between requests, such as which functions it has called. The server creates one for
// each client and drops it with the client; there is nothing to close. The zero value is an empty session. Many goroutines
// may use it. It must not be copied.
type Session struct {
	mu     sync.Mutex
	values map[any]any
}

// Value returns the value of a key; if there is none, make creates it. make must not use the session. As in a context, each package uses
// its own key type. A value lives as long as the session, and the package that created it bounds its size.
func (s *Session) Value(key any, make func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.values[key]; ok {
		return value
	}
	if s.values == nil {
		s.values = map[any]any{}
	}
	value := make()
	s.values[key] = value
	return value
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
