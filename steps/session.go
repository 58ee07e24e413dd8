package steps

import (
	"context"
	"sync"
)

// Session holds what calls keep of one client from one request to the next, such as which functions it has called. Who tells
// clients apart makes one for each and drops it with the client; there is nothing to close. The zero value is an empty
// session. It may be used by many goroutines, and must not be copied.
type Session struct {
	mu   sync.Mutex
	kept map[any]any
}

// Value is what is kept under a key, made by make where there is nothing yet. Keys are compared as those of a context are:
// a package uses a type of its own. What is kept stays as long as the session, and whoever keeps it bounds its size.
func (s *Session) Value(key any, make func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.kept[key]; ok {
		return value
	}
	if s.kept == nil {
		s.kept = map[any]any{}
	}
	value := make()
	s.kept[key] = value
	return value
}

type sessionKey struct{}

// WithSession gives a context whose calls are those of a client with the session s.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionOf is the session that ctx carries; nil where there is none.
func SessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}
