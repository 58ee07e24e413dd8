package ladder

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/steps"
)

// foot is where a subject stands that was never called.
const foot = -1

// memory is on which rung the subjects of a session stand.
type memory struct {
	mu   sync.Mutex
	of   *Ladder // whose rungs are meant
	seen *simplelru.LRU[key, int]
}

type memoryKey struct{}

// memory is that of the session that ctx carries; one of its own where it carries none. After a change of the
// configuration a session begins anew: the rungs may be others.
func (l *Ladder) memory(ctx context.Context) *memory {
	session := steps.SessionOf(ctx)
	if session == nil {
		return &memory{}
	}
	return session.Value(memoryKey{}, func() any { return &memory{} }).(*memory)
}

// stands tells on which rung a subject stands for l.
func (m *memory) stands(l *Ladder, k key) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == l {
		if rung, ok := m.seen.Get(k); ok {
			return rung
		}
	}
	return foot
}

// reach takes note that subjects were called at a rung of l.
func (m *memory) reach(l *Ladder, rung int, keys []key) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != l {
		m.of = l
		m.seen, _ = simplelru.NewLRU[key, int](l.max, nil) // the only error is a size below 1
	}
	for _, k := range keys {
		if before, ok := m.seen.Get(k); !ok || before < rung {
			m.seen.Add(k, rung)
		}
	}
}
