package ladder

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/steps"
)

// belowFirst is the rung of a subject on which no function was called.
const belowFirst = -1

type memoryKey struct{}

// memory returns the memory of ctx's session, or an empty one if ctx has no session. Rungs of another ladder in it do not count: after the
// ladder has changed, all subjects are below the first rung again.
func (l *Ladder) memory(ctx context.Context) *memory {
	session := steps.SessionOf(ctx)
	if session == nil {
		return &memory{}
	}
	return session.Value(memoryKey{}, func() any { return &memory{} }).(*memory)
}

// memory holds the rungs of a session's most recent subjects.
type memory struct {
	mu       sync.Mutex
	ladderID string                   // the ladder to which the rungs belong
	seen     *simplelru.LRU[key, int] // the highest rung reached, by the key of a subject
}

// rungsOf returns the rung of each subject.
func (m *memory) rungsOf(l *Ladder, keys []key) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	rungs := make([]int, len(keys))
	for i, k := range keys {
		rungs[i] = belowFirst
		if m.ladderID == l.id {
			if rung, ok := m.seen.Get(k); ok {
				rungs[i] = rung
			}
		}
	}
	return rungs
}

// record records that subjects were called at a rung.
func (m *memory) record(l *Ladder, rung int, keys []key) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ladderID != l.id {
		m.ladderID = l.id
		m.seen, _ = simplelru.NewLRU[key, int](l.max, nil) // fails only for a size below 1
	}
	m.seen.Resize(l.max) // a reload may have changed it
	for _, k := range keys {
		if before, ok := m.seen.Get(k); !ok || before < rung {
			m.seen.Add(k, rung)
		}
	}
}
