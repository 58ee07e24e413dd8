package admit

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots are two semaphores: one for each caller and one for all callers. Both serve in order of arrival. A waiter for the second holds
// the first, so at most perCaller waiters of one caller are ahead of others.
type slots struct {
	perCaller int64
	all       *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*callerSlots
}

// callerSlots is the semaphore of one caller, removed when it has no users.
type callerSlots struct {
	*semaphore.Weighted
	users int
}

func newSlots(perCaller, total int) *slots {
	return &slots{perCaller: int64(perCaller), all: semaphore.NewWeighted(int64(total)), callers: map[string]*callerSlots{}}
}

// acquire waits for a slot. release frees it. The error is the context's.
func (s *slots) acquire(ctx context.Context, caller string) (release func(), err error) {
	sem := s.join(caller)
	if err := sem.Acquire(ctx, 1); err != nil {
		s.release(caller, sem)
		return nil, err
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		sem.Release(1)
		s.release(caller, sem)
		return nil, err
	}
	return func() {
		s.all.Release(1) // first, so that another waiting caller precedes this one's next call
		sem.Release(1)
		s.release(caller, sem)
	}, nil
}

// join returns the semaphore of a caller, and counts one more user of it. Each join needs a release.
func (s *slots) join(caller string) *callerSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	sem := s.callers[caller]
	if sem == nil {
		sem = &callerSlots{Weighted: semaphore.NewWeighted(s.perCaller)}
		s.callers[caller] = sem
	}
	sem.users++
	return sem
}

// release undoes a join: it counts one user less. It frees no slot of the semaphores.
func (s *slots) release(caller string, sem *callerSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sem.users--; sem.users == 0 {
		delete(s.callers, caller)
	}
}
