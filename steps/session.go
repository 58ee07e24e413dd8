package steps

import (
	"context"
	"sync"
)

// Session holds what is kept of one client between its requests by what its calls go through, such as which functions
// it has called before. Whoever knows clients apart makes one for each and lets go of it with the client; nothing is to be
// closed. The zero value is an empty session of this process alone. It may be used by many goroutines, and must not be copied.
type Session struct {
	shared SessionState

	mu   sync.Mutex
	kept map[any]any
}

// SessionState is what replicas of a server share of one session: numbers by name that only grow. A name has at most 200 bytes.
// Its errors are coded; unavailable where the state cannot be had now.
type SessionState interface {
	// Read gives the numbers of the names, 0 where nothing was written.
	Read(ctx context.Context, names ...string) ([]int64, error)
	// Add adds n, of at least 0, to a number and gives the sum.
	Add(ctx context.Context, name string, n int64) (sum int64, err error)
	// Raise makes each number at least what is given.
	Raise(ctx context.Context, values map[string]int64) error
}

// NewSession gives an empty session whose client may come to several replicas; shared is what they know of it. nil: the
// session is of this process alone.
func NewSession(shared SessionState) *Session { return &Session{shared: shared} }

// Shared is what all replicas know of the session; nil where it is of this process alone. What must hold for a client
// wherever it comes is kept there, and not by Value.
func (s *Session) Shared() SessionState { return s.shared }

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
