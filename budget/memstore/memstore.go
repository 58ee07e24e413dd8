// Package memstore keeps results in memory, for a process that lives as long as its results.
package memstore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// sweepEvery is how often expired results are let go of when nothing else happens.
const sweepEvery = time.Minute

// Options are the settings of a Store; nil or a zero field stands for the default.
type Options struct {
	MaxBytes int64            // all values together; default 1 GiB, -1 for no bound
	Now      func() time.Time // the clock; default time.Now
}

// Store is a budget.Driver. Values are kept as they are handed over, without a copy. Where a new result would pass
// MaxBytes, those not used for the longest time go first. The memory of expired results is given back within a minute.
type Store struct {
	o Options // MaxBytes is guarded by mu

	mu      sync.Mutex
	results *simplelru.LRU[string, *budget.Entry]
	bytes   int64
	sweeper *time.Timer // nil while there is nothing to sweep
	closed  bool
}

// New makes a store. MaxBytes below -1 is bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{}
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
	s.results, err = simplelru.NewLRU(math.MaxInt, func(_ string, e *budget.Entry) { s.bytes -= size(e) })
	return s, err
}

// size is what an entry counts: its value, and what stands around it in memory.
func size(e *budget.Entry) int64 { return int64(len(e.Value)) + 512 }

// Put implements budget.Driver.
func (s *Store) Put(ctx context.Context, key string, e budget.Entry) error {
	return s.locked(ctx, func() error {
		if size(&e) > s.o.MaxBytes {
			return fault.New(fault.LimitExceeded, "The result has %d bytes, more than the whole result store may hold. Ask for less of it.", len(e.Value))
		}
		s.results.Remove(key)
		s.results.Add(key, &e)
		s.bytes += size(&e)
		s.makeRoom()
		if s.sweeper == nil {
			s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
		}
		return nil
	})
}

// makeRoom lets go of what was not used for the longest time until the rest is within the bound. The caller holds the lock.
func (s *Store) makeRoom() {
	for s.bytes > s.o.MaxBytes {
		s.results.RemoveOldest()
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
	s.makeRoom()
	return nil
}

// Get implements budget.Driver.
func (s *Store) Get(ctx context.Context, key string) (budget.Entry, error) {
	var found budget.Entry
	err := s.locked(ctx, func() error {
		e, ok := s.results.Get(key)
		if !ok || s.expired(e) {
			return budget.ErrNotFound
		}
		found = *e
		return nil
	})
	return found, err
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	return s.locked(ctx, func() error {
		e, ok := s.results.Get(key)
		if !ok || s.expired(e) {
			return budget.ErrNotFound
		}
		e.Expires = expires
		return nil
	})
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.locked(ctx, func() error {
		s.results.Remove(key)
		return nil
	})
}

// Close implements budget.Driver and lets go of all results.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.results.Purge()
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
	for _, key := range s.results.Keys() {
		if e, ok := s.results.Peek(key); ok && s.expired(e) {
			s.results.Remove(key)
		}
	}
	s.sweeper = nil
	if s.results.Len() > 0 {
		s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
	}
}

func (s *Store) expired(e *budget.Entry) bool { return !s.o.Now().Before(e.Expires) }
