// Package share divides what all callers of a process have together: bytes of memory, and turns at heavy work.
package share

import (
	"context"
	"sync"
)

// Shares are what callers share. They are safe for use by many goroutines at once. Every caller gives back what it has, so
// that an idle process knows no caller.
type Shares struct {
	mu      sync.Mutex
	held    int64 // bytes, by all callers together
	places  int   // for heavy work, that nobody has
	callers map[string]*caller
	queue   []*caller // those that wait for a place, each once, the next first
}

// caller is one that holds bytes or waits.
type caller struct {
	id      string
	held    int64
	waiting []chan struct{} // closed when the place is there; the first came first
}

// New makes shares with so many places for heavy work, at least 1.
func New(places int) *Shares { return &Shares{places: max(places, 1), callers: map[string]*caller{}} }

// Held is how many bytes all callers hold.
func (s *Shares) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Of is the part of one caller in shares of so many bytes, of all callers together; 0: without a bound. Callers with the same
// id share a part.
func (s *Shares) Of(id string, bytes int64) Part { return Part{s, id, bytes} }

// Part is what one caller has of the shares. The zero value has no bounds.
type Part struct {
	shares *Shares
	id     string
	bytes  int64
}

// Hold takes n bytes, or none: a caller has at most as much as is left for others then. So one caller alone gets half of
// all, two get a third each, and there is always a part for the next: the dynamic thresholds of shared buffers (Choudhury and
// Hahne, 1998).
func (p Part) Hold(n int64) bool {
	s := p.shares
	if s == nil || n <= 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.callers[p.id]
	has := n
	if own != nil {
		has += own.held
	}
	if p.bytes > 0 && (n > p.bytes || has > p.bytes-s.held-n) {
		return false
	}
	s.known(p.id).held += n
	s.held += n
	return true
}

// Release gives n held bytes back.
func (p Part) Release(n int64) {
	s := p.shares
	if s == nil || n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.known(p.id)
	own.held -= n
	s.held -= n
	s.forget(own)
}

// known is the caller with this id. The caller of it holds the lock, as with forget.
func (s *Shares) known(id string) *caller {
	own := s.callers[id]
	if own == nil {
		own = &caller{id: id}
		s.callers[id] = own
	}
	return own
}

func (s *Shares) forget(own *caller) {
	if own.held == 0 && len(own.waiting) == 0 {
		delete(s.callers, own.id)
	}
}

// Turn waits for a place for heavy work, which callers get in turn, whatever each of them waits for; done gives it back. A
// turn is for computing only: who has it waits for nothing else, least of all for another turn. The error is the context's,
// when it ends first.
func (p Part) Turn(ctx context.Context) (done func(), err error) {
	s := p.shares
	if s == nil {
		return func() {}, nil
	}
	s.mu.Lock()
	if s.places > 0 {
		s.places--
		s.mu.Unlock()
		return s.leave, nil
	}
	mine := make(chan struct{})
	own := s.known(p.id)
	if own.waiting = append(own.waiting, mine); len(own.waiting) == 1 {
		s.queue = append(s.queue, own)
	}
	s.mu.Unlock()
	select {
	case <-mine:
		return s.leave, nil
	case <-ctx.Done():
		s.giveUp(own, mine)
		return nil, ctx.Err()
	}
}

// leave hands a place to the next caller that waits.
func (s *Shares) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.places++
		return
	}
	next := s.queue[0]
	s.queue = s.queue[1:]
	close(next.waiting[0])
	if next.waiting = next.waiting[1:]; len(next.waiting) > 0 {
		s.queue = append(s.queue, next)
	}
	s.forget(next)
}

// giveUp takes one that waits out of the queue, or hands on the place that it was given meanwhile.
func (s *Shares) giveUp(own *caller, mine chan struct{}) {
	s.mu.Lock()
	for i, other := range own.waiting {
		if other != mine {
			continue
		}
		own.waiting = append(own.waiting[:i:i], own.waiting[i+1:]...)
		if len(own.waiting) == 0 {
			s.unqueue(own)
			s.forget(own)
		}
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.leave()
}

func (s *Shares) unqueue(own *caller) {
	for i, other := range s.queue {
		if other == own {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			return
		}
	}
}

type key struct{}

// With gives a context the part of the caller on whose behalf it is.
func With(ctx context.Context, p Part) context.Context { return context.WithValue(ctx, key{}, p) }

// From is the part that a context carries; the zero part where it carries none.
func From(ctx context.Context) Part {
	p, _ := ctx.Value(key{}).(Part)
	return p
}
