// Package memstore keeps results in memory, for a process that lives as long as its results.
package memstore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/parts"
)

// sweepEvery is how often expired results are let go of when nothing else happens.
const sweepEvery = time.Minute

// Options are the settings of a Store; nil or a zero field stands for the default.
type Options struct {
	MaxBytes int64            // all values together; default 1 GiB, -1 for no bound
	Now      func() time.Time // the clock; default time.Now
}

// Store is a budget.Driver. Values are kept as they are handed over, without a copy. Where a new result would pass
// MaxBytes, those go first of the owner that has most which were not used for the longest time. The memory of expired results
// is given back within a minute.
type Store struct {
	o Options // MaxBytes is guarded by mu

	mu      sync.Mutex
	results map[string]*budget.Entry
	used    map[string]*uses // by part
	parts   parts.Parts
	sweeper *time.Timer // nil while there is nothing to sweep
	closed  bool
}

// uses are the keys of one part's results in the order of their use.
type uses = simplelru.LRU[string, struct{}]

// New makes a store. MaxBytes below -1 is bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{results: map[string]*budget.Entry{}, used: map[string]*uses{}}
	if o != nil {
		s.o = *o
	}
	var err error
	if s.o.MaxBytes, err = budget.Bound(s.o.MaxBytes); err != nil {
		return nil, err
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	return s, nil
}

// size is what an entry counts: its value, and what stands around it in memory.
func size(e *budget.Entry) int64 { return int64(len(e.Value)) + 512 }

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	return s.locked(ctx, func() error {
		if err := budget.CheckSize(size(&e), s.o.MaxBytes, s.parts.Alone(e.Part())); err != nil {
			return err
		}
		s.remove(key)
		s.add(key, &e)
		s.makeRoom(key)
		if s.sweeper == nil {
			s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
		}
		return nil
	})
}

// add keeps an entry under a key that has none. The caller holds the lock, as of all that follow.
func (s *Store) add(key string, e *budget.Entry) {
	own := s.used[e.Part()]
	if own == nil {
		own, _ = simplelru.NewLRU[string, struct{}](math.MaxInt, nil) // it refuses only a size below 1
		s.used[e.Part()] = own
	}
	own.Add(key, struct{}{})
	s.results[key] = e
	s.parts.Add(e.Part(), size(e))
}

// remove lets go of an entry, if it is there, and tells what it counted.
func (s *Store) remove(key string) int64 {
	e := s.results[key]
	if e == nil {
		return 0
	}
	delete(s.results, key)
	own := s.used[e.Part()]
	if own.Remove(key); own.Len() == 0 {
		delete(s.used, e.Part())
	}
	s.parts.Add(e.Part(), -size(e))
	return size(e)
}

// makeRoom lets go of results until the rest is within the bound, but never of the one with the key latest.
func (s *Store) makeRoom(latest string) {
	for over := s.parts.Total() - s.o.MaxBytes; over > 0; {
		owner, some := s.parts.Largest()
		if !some {
			return
		}
		key, _, _ := s.used[owner].GetOldest()
		if key == latest { // all else of this owner is gone: it is the others' turn
			n := size(s.results[key])
			s.parts.Add(owner, -n)
			defer s.parts.Add(owner, n)
			continue
		}
		over -= s.remove(key)
	}
}

// SetMaxBytes implements budget.Driver. Memory beyond the new bound is given back at once.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	most, err := budget.Bound(maxBytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.MaxBytes = most
	for s.parts.Total() > most {
		owner, _ := s.parts.Largest()
		key, _, _ := s.used[owner].GetOldest()
		s.remove(key)
	}
	return nil
}

// Get implements budget.Driver.
func (s *Store) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	var found budget.Entry
	err := s.locked(ctx, func() error {
		e, err := s.live(key)
		if err == nil {
			found = *e
		}
		return err
	})
	if err == nil {
		err = admit.Ask(found, int64(len(found.Value)))
	}
	if err != nil {
		return budget.Entry{}, err
	}
	return found, nil
}

// live is an entry that is there and has not expired, which counts as used.
func (s *Store) live(key string) (*budget.Entry, error) {
	e := s.results[key]
	if e == nil || s.expired(e) {
		return nil, budget.ErrNotFound
	}
	s.used[e.Part()].Get(key)
	return e, nil
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	return s.locked(ctx, func() error {
		e, err := s.live(key)
		if err == nil {
			e.Expires = expires
		}
		return err
	})
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.locked(ctx, func() error {
		s.remove(key)
		return nil
	})
}

// Close implements budget.Driver and lets go of all results.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.results, s.used, s.parts = nil, nil, parts.Parts{}
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	return nil
}

// locked runs one operation, unless the context has ended or the store is closed.
func (s *Store) locked(ctx context.Context, operation func() error) error {
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

// sweep removes what has expired, and comes again while anything is left.
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
		s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
	}
}

func (s *Store) expired(e *budget.Entry) bool { return !s.o.Now().Before(e.Expires) }
