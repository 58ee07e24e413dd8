package ladder

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/steps"
)

// foot is where a subject stands that was never called.
const foot = -1

type memoryKey struct{}

// memory is that of the session that ctx carries; one of its own if ctx carries no session. After a change of the ladder a
// session begins again: the rungs are others.
func (l *Ladder) memory(ctx context.Context) *memory {
	session := steps.SessionOf(ctx)
	if session == nil {
		return &memory{}
	}
	return session.Value(memoryKey{}, func() any { return &memory{} }).(*memory)
}

// memory is on which rung the subjects of a session stand: of those that were called last.
type memory struct {
	mu   sync.Mutex
	of   string // the ladder whose rungs are meant
	seen *simplelru.LRU[key, int]
}

// stands gives the rung of each subject.
func (m *memory) stands(l *Ladder, keys []key) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	rungs := make([]int, len(keys))
	for i, k := range keys {
		rungs[i] = foot
		if m.of == l.id {
			if rung, ok := m.seen.Get(k); ok {
				rungs[i] = rung
			}
		}
	}
	return rungs
}

// reach notes that subjects were called at a rung.
func (m *memory) reach(l *Ladder, rung int, keys []key) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != l.id {
		m.of = l.id
		m.seen, _ = simplelru.NewLRU[key, int](l.max, nil) // the only error is a size below 1
	}
	m.seen.Resize(l.max) // which may be another since a reload
	for _, k := range keys {
		if before, ok := m.seen.Get(k); !ok || before < rung {
			m.seen.Add(k, rung)
		}
	}
}
