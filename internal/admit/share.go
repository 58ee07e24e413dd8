// Package admit divides what all callers of a process have together: bytes of memory, turns at heavy work, and places at a server
// that answers only so many calls at once.
package admit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Shares are what callers share. They are safe for use by many goroutines at once. Every caller gives back what it has, so
// that an idle process knows no caller.
type Shares struct {
	mu      sync.Mutex
	held    int64 // bytes, by all callers together
	places  int   // that nobody has
	callers map[string]*caller
	queue   []*caller // those that wait for a place, each once, the next first
}

// caller is one that holds bytes or waits.
type caller struct {
	id      string
	held    int64
	waiting []chan struct{} // closed when the place is there; the first came first
}

// New makes shares with so many places, at least 1.
func New(places int) *Shares { return &Shares{places: max(places, 1), callers: map[string]*caller{}} }

// Held is how many bytes all callers hold.
func (s *Shares) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Of is the part of one caller in shares of so many bytes, of all callers together; 0: without a bound. Callers with the same
// id share a part.
func (s *Shares) Of(id string, bytes int64) Part { return Part{shares: s, id: id, bytes: bytes} }

// Part is what one caller has of the shares. The zero value has no bounds.
type Part struct {
	shares *Shares
	id     string
	bytes  int64
	memory Memory
}

// Memory bounds what the work of one request holds. HoldWork takes n bytes, or refuses them with an error; a negative n gives
// them back, and never fails.
type Memory interface{ HoldWork(n int) error }

// Within is the part with a bound on the memory of one request.
func (p Part) Within(m Memory) Part {
	p.memory = m
	return p
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

// slice is how long a turn lasts at least where others wait.
const slice = 20 * time.Millisecond

// Turn is a place for heavy work. A turn is for computing only: who has it waits for nothing else, least of all for another
// turn. The nil Turn does nothing.
type Turn struct {
	part  Part
	since time.Time
	lost  bool  // it has no place any more: it is done, or its context ended while it waited to go on
	outer *Turn // of which this one is a part; nil: it has a place of its own
}

// Turn waits for a place for heavy work, which callers get in turn, whatever each of them waits for. In a context that has a
// turn already (Begin) there is nothing to wait for. The error is the context's, when it ends first.
func (p Part) Turn(ctx context.Context) (*Turn, error) {
	if p.shares == nil {
		return nil, nil //nolint:nilnil // there is nothing to wait for, and nothing to give back
	}
	if outer, ok := ctx.Value(turnKey{}).(*Turn); ok {
		return &Turn{outer: outer}, nil
	}
	if err := p.shares.enter(ctx, p.id); err != nil {
		return nil, err
	}
	return &Turn{part: p, since: time.Now()}, nil
}

// Yield lets other callers go first who wait, where this turn has lasted a while, and goes on before its caller's next begins: so
// no caller has more work half done than there are places. It is called every so often by work that may take long. The error
// is the context's, when it ends meanwhile: then the turn is over.
func (t *Turn) Yield(ctx context.Context) error {
	switch {
	case t == nil:
		return nil
	case t.outer != nil:
		return t.outer.Yield(ctx)
	case t.lost || time.Since(t.since) < slice:
		return nil
	}
	t.lost = true
	if err := t.part.shares.yield(ctx, t.part.id); err != nil {
		return err
	}
	t.lost, t.since = false, time.Now()
	return nil
}

// Done ends the turn.
func (t *Turn) Done() {
	if t != nil && t.outer == nil && !t.lost {
		t.lost = true
		t.part.shares.leave()
	}
}

type turnKey struct{}

type turnsKey struct{}

// WithTurns gives a context in which each call that only computes has a turn of its own (Begin), light as it may be: so many small
// ones leave others their part too.
func WithTurns(ctx context.Context) context.Context { return context.WithValue(ctx, turnsKey{}, true) }

// Begin waits for a turn where the context asks for it (WithTurns), for work that begins and ends on the goroutine of the caller, in
// the context that it gives. The caller ends it by Done. The error is the context's, when it ends first.
func Begin(ctx context.Context) (context.Context, *Turn, error) {
	if ctx.Value(turnsKey{}) == nil {
		return ctx, nil, nil
	}
	t, err := From(ctx).Turn(ctx)
	return withTurn(ctx, t), t, err
}

// withTurn gives a context in which work is a part of this turn, on the goroutine that has it.
func withTurn(ctx context.Context, t *Turn) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, turnKey{}, t)
}

// enter waits for a place.
func (s *Shares) enter(ctx context.Context, id string) error {
	s.mu.Lock()
	if s.places > 0 {
		s.places--
		s.mu.Unlock()
		return nil
	}
	own, mine := s.known(id), make(chan struct{})
	if own.waiting = append(own.waiting, mine); len(own.waiting) == 1 {
		s.queue = append(s.queue, own)
	}
	s.mu.Unlock()
	return s.wait(ctx, own, mine)
}

// yield hands a place to another caller that waits, and waits behind it, but before all else of its own caller.
func (s *Shares) yield(ctx context.Context, id string) error {
	s.mu.Lock()
	if len(s.queue) == 0 || len(s.queue) == 1 && s.queue[0].id == id {
		s.mu.Unlock()
		return nil
	}
	own, mine := s.known(id), make(chan struct{})
	own.waiting = slices.Insert(own.waiting, 0, mine)
	s.unqueue(own)
	s.queue = append(s.queue, own)
	s.next()
	s.mu.Unlock()
	return s.wait(ctx, own, mine)
}

func (s *Shares) wait(ctx context.Context, own *caller, mine chan struct{}) error {
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		s.giveUp(own, mine)
		return ctx.Err()
	}
}

// leave gives a place back.
func (s *Shares) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
}

// next gives a place that is free to the next caller that waits. The caller of it holds the lock.
func (s *Shares) next() {
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
	defer s.mu.Unlock()
	i := slices.Index(own.waiting, mine)
	if i < 0 {
		s.next()
		return
	}
	if own.waiting = slices.Delete(own.waiting, i, i+1); len(own.waiting) == 0 {
		s.unqueue(own)
		s.forget(own)
	}
}

func (s *Shares) unqueue(own *caller) {
	s.queue = slices.DeleteFunc(s.queue, func(other *caller) bool { return other == own })
}

type key struct{}

// With gives a context the part of the caller on whose behalf it is.
func With(ctx context.Context, p Part) context.Context { return context.WithValue(ctx, key{}, p) }

// From is the part that a context carries; the zero part where it carries none.
func From(ctx context.Context) Part {
	p, _ := ctx.Value(key{}).(Part)
	return p
}

// Hold takes n bytes of the memory that the context's work may hold (Part.Within), or gives back -n; without a bound it does
// nothing.
func Hold(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	if m := From(ctx).memory; m != nil {
		return m.HoldWork(n)
	}
	return nil
}
