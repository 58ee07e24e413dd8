package admit

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots are two semaphores: one for each caller and one for all callers. Both serve in order of arrival. A waiter for the second holds
// the first, so at most `each` waiters of one caller are ahead of others.
type slots struct {
	each int64
	all  *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*callerSlots
}

// callerSlots is the semaphore of one caller, removed when it has no users.
type callerSlots struct {
	*semaphore.Weighted
	users int
}

func newSlots(each, all int) *slots {
	return &slots{each: int64(each), all: semaphore.NewWeighted(int64(all)), callers: map[string]*callerSlots{}}
}

// acquire waits for a slot. release frees it. The error is the context's.
func (s *slots) acquire(ctx context.Context, caller string) (release func(), err error) {
	mine := s.join(caller)
	if err := mine.Acquire(ctx, 1); err != nil {
		s.release(caller, mine)
		return nil, err
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		mine.Release(1)
		s.release(caller, mine)
		return nil, err
	}
	return func() {
		s.all.Release(1) // first, so that another waiting caller precedes this one's next call
		mine.Release(1)
		s.release(caller, mine)
	}, nil
}

func (s *slots) join(caller string) *callerSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.callers[caller]
	if mine == nil {
		mine = &callerSlots{Weighted: semaphore.NewWeighted(s.each)}
		s.callers[caller] = mine
	}
	mine.users++
	return mine
}

func (s *slots) release(caller string, mine *callerSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(s.callers, caller)
	}
}
