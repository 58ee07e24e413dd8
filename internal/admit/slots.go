package admit

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots are two semaphores: a caller's own, and one that all callers share. Both serve in order of arrival. Whoever waits for
// the second holds the first, so that of one caller at most `each` are ahead of others, however much it asks for.
type slots struct {
	each int64
	all  *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*own
}

// own is the semaphore of one caller, forgotten when nobody uses it.
type own struct {
	*semaphore.Weighted
	users int
}

func newSlots(each, all int) *slots {
	return &slots{each: int64(each), all: semaphore.NewWeighted(int64(all)), callers: map[string]*own{}}
}

// acquire waits for a slot, and returns what gives it back. The error is the context's.
func (s *slots) acquire(ctx context.Context, caller string) (release func(), err error) {
	mine := s.join(caller)
	if err := mine.Acquire(ctx, 1); err != nil {
		s.part(caller, mine)
		return nil, err
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		mine.Release(1)
		s.part(caller, mine)
		return nil, err
	}
	return func() {
		s.all.Release(1) // first: another caller that waits goes before this one's next
		mine.Release(1)
		s.part(caller, mine)
	}, nil
}

func (s *slots) join(caller string) *own {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.callers[caller]
	if mine == nil {
		mine = &own{Weighted: semaphore.NewWeighted(s.each)}
		s.callers[caller] = mine
	}
	mine.users++
	return mine
}

func (s *slots) part(caller string, mine *own) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(s.callers, caller)
	}
}
