// Package memstore keeps results in memory, for processes that live as long as their results.
package memstore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/shares"
)

// sweepInterval is how often expired results are removed. Nothing else removes them, unless the store is full.
const sweepInterval = time.Minute

// Options are the settings of a Store. Nil or a zero field means the default.
type Options struct {
	MaxBytes int64            // all values together; default 1 GiB, -1 for no limit
	Now      func() time.Time // the clock; default time.Now
}

// Store is a budget.Driver. It does not copy values. Above MaxBytes it removes results of the owner that uses most, the least recently
// used first. The memory of expired results is released within a minute.
type Store struct {
	o Options // MaxBytes is guarded by mu

	mu      sync.Mutex
	results map[string]*budget.Entry
	byOwner map[string]*usageOrder // the keys of the results, by Entry.BaseOwner
	shares  shares.Shares
	sweeper *time.Timer // nil: nothing to sweep
	closed  bool
}

// usageOrder holds the keys of one owner's results in the order of their use.
type usageOrder = simplelru.LRU[string, struct{}]

// New returns a store. MaxBytes below -1 is bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{results: map[string]*budget.Entry{}, byOwner: map[string]*usageOrder{}}
	if o != nil {
		s.o = *o
	}
	var err error
	if s.o.MaxBytes, err = budget.ResolveMaxBytes(s.o.MaxBytes); err != nil {
		return nil, err
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	return s, nil
}

// size is the number of bytes that an entry counts for: its value, and an estimate of the memory around it.
func size(e *budget.Entry) int64 { return int64(len(e.Value)) + 512 }

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	return s.withLock(ctx, func() error {
		if err := budget.CheckSize(size(&e), s.o.MaxBytes, s.shares.Alone(e.BaseOwner())); err != nil {
			return err
		}
		s.remove(key)
		s.add(key, &e)
		s.evict(key)
		if s.sweeper == nil {
			s.sweeper = time.AfterFunc(sweepInterval, s.sweep)
		}
		return nil
	})
}

// add stores an entry under a new key. Callers of add, remove, evict, lookUp and expired hold the lock.
func (s *Store) add(key string, e *budget.Entry) {
	order := s.byOwner[e.BaseOwner()]
	if order == nil {
		order, _ = simplelru.NewLRU[string, struct{}](math.MaxInt, nil) // fails only for a size below 1
		s.byOwner[e.BaseOwner()] = order
	}
	order.Add(key, struct{}{})
	s.results[key] = e
	s.shares.Add(e.BaseOwner(), size(e))
}

// remove removes the entry of a key, if any, and returns its size.
func (s *Store) remove(key string) int64 {
	e := s.results[key]
	if e == nil {
		return 0
	}
	delete(s.results, key)
	order := s.byOwner[e.BaseOwner()]
	if order.Remove(key); order.Len() == 0 {
		delete(s.byOwner, e.BaseOwner())
	}
	s.shares.Add(e.BaseOwner(), -size(e))
	return size(e)
}

// evict removes results until the rest is within the limit. It never removes the key latest.
func (s *Store) evict(latest string) {
	for over := s.shares.Total() - s.o.MaxBytes; over > 0; {
		owner, ok := s.shares.Largest()
		if !ok {
			return
		}
		key, _, _ := s.byOwner[owner].GetOldest()
		if key == latest { // the newest of this owner, so its only one: hide its share until evict returns, so that Largest names others
			n := size(s.results[key])
			s.shares.Add(owner, -n)
			defer s.shares.Add(owner, n)
			continue
		}
		over -= s.remove(key)
	}
}

// SetMaxBytes implements budget.Driver. Results above the new limit are removed at once.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	limit, err := budget.ResolveMaxBytes(maxBytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.MaxBytes = limit
	for s.shares.Total() > limit {
		owner, _ := s.shares.Largest()
		key, _, _ := s.byOwner[owner].GetOldest()
		s.remove(key)
	}
	return nil
}

// Get implements budget.Driver.
func (s *Store) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	var entry budget.Entry
	err := s.withLock(ctx, func() error {
		e, err := s.lookUp(key)
		if err == nil {
			entry = *e
		}
		return err
	})
	if err == nil {
		err = admit.Check(entry, int64(len(entry.Value)))
	}
	if err != nil {
		return budget.Entry{}, err
	}
	return entry, nil
}

// lookUp returns an entry that exists and has not expired, and marks it as used.
func (s *Store) lookUp(key string) (*budget.Entry, error) {
	e := s.results[key]
	if e == nil || s.expired(e) {
		return nil, budget.ErrNotFound
	}
	s.byOwner[e.BaseOwner()].Get(key)
	return e, nil
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	return s.withLock(ctx, func() error {
		e, err := s.lookUp(key)
		if err == nil {
			e.Expires = expires
		}
		return err
	})
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.withLock(ctx, func() error {
		s.remove(key)
		return nil
	})
}

// Close implements budget.Driver and releases all results.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.results, s.byOwner, s.shares = nil, nil, shares.Shares{}
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	return nil
}

// withLock runs an operation unless the context has ended or the store is closed.
func (s *Store) withLock(ctx context.Context, operation func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return budget.ErrClosed
	}
	return operation()
}

// sweep removes expired results, and schedules itself again if other results are left.
func (s *Store) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for key, e := range s.results {
		if s.expired(e) {
			s.remove(key)
		}
	}
	s.sweeper = nil
	if len(s.results) > 0 {
		s.sweeper = time.AfterFunc(sweepInterval, s.sweep)
	}
}

func (s *Store) expired(e *budget.Entry) bool { return !s.o.Now().Before(e.Expires) }
