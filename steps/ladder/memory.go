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
type memory interface {
	// stands tells on which rung each of the subjects stands for l.
	stands(ctx context.Context, l *Ladder, keys []key) ([]int, error)
	// reach takes note that subjects were called at a rung of l.
	reach(ctx context.Context, l *Ladder, rung int, keys []key) error
	// most is how many subjects of one result it takes note of.
	most(l *Ladder) int
}

type memoryKey struct{}

// memory is that of the session that ctx carries: of all replicas where they share the session, else of this process; one
// of its own where ctx carries no session. After a change of the ladder a session begins anew: the rungs are others.
func (l *Ladder) memory(ctx context.Context) memory {
	session := steps.SessionOf(ctx)
	if session == nil {
		return &recent{}
	}
	if state := session.Shared(); state != nil {
		return shared{state}
	}
	return session.Value(memoryKey{}, func() any { return &recent{} }).(*recent)
}

// recent is the memory of one process: of the subjects that were called last.
type recent struct {
	mu   sync.Mutex
	of   string // the ladder whose rungs are meant
	seen *simplelru.LRU[key, int]
}

func (m *recent) stands(_ context.Context, l *Ladder, keys []key) ([]int, error) {
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
	return rungs, nil
}

func (m *recent) most(l *Ladder) int { return l.max }

func (m *recent) reach(_ context.Context, l *Ladder, rung int, keys []key) error {
	if len(keys) == 0 {
		return nil
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
	return nil
}
