package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/internal/config"
)

// newResults makes the store of large results: on disk, in the user's cache folder, where later commands can fetch them, or in
// memory. store is the one of a configuration that says none. A configuration that takes the place of another has the same
// store where that is in the same place: what was kept stays. watched gives the driver whose use is told of.
func newResults(s *shelf, c *config.Results, store string, counter budget.Counter, watched func(budget.Driver) budget.Driver) (*budget.Results, error) {
	maxBytes := int64(config.Or(c.MaxBytes, 0))
	most, err := budget.Bound(maxBytes)
	if err != nil {
		return nil, err
	}
	where := config.Or(c.Store, store)
	lent, err := take(s, shelfKey("results", "", where), func() (*sharedStore, error) { return openStore(where, most) })
	if err != nil {
		return nil, err
	}
	driver := &lentDriver{watched(lent.value), lent}
	lent.value.bound(driver, most)
	results, err := budget.NewResults(driver, &budget.ResultsOptions{
		TTL:      config.Or(c.TTL, 0),
		MaxTTL:   maxTTL(c),
		MaxBytes: maxBytes,
		PageSize: config.Or(c.PageSize, 0),
		Counter:  counter,
	})
	if err != nil {
		_ = driver.Close() // nothing was kept by it
	}
	return results, err
}

// openStore makes a store in its place. A server is not asked before it is needed, and a folder not made.
func openStore(where string, most int64) (*sharedStore, error) {
	var open func(maxBytes int64) (budget.Driver, error)
	switch where {
	case "disk":
		open = func(maxBytes int64) (budget.Driver, error) {
			cache, err := os.UserCacheDir()
			if err != nil {
				return nil, err
			}
			return diskstore.Open(filepath.Join(cache, "onecall", "results"), &diskstore.Options{MaxBytes: maxBytes})
		}
	case "memory":
		open = func(maxBytes int64) (budget.Driver, error) {
			return memstore.New(&memstore.Options{MaxBytes: maxBytes})
		}
	default:
		server, err := redisstore.New(&redisstore.Options{URL: where, MaxBytes: most})
		if err != nil {
			return nil, err
		}
		open = func(maxBytes int64) (budget.Driver, error) { return server, server.SetMaxBytes(maxBytes) }
	}
	return newSharedStore(open), nil
}

// lentDriver is a driver that others may use as well.
type lentDriver struct {
	budget.Driver
	loan *loan[*sharedStore]
}

// Close implements budget.Driver.
func (l *lentDriver) Close() error {
	l.loan.value.unbound(l)
	return l.loan.Close()
}

// maxTTL is the configured one, and never below a ttl that was raised alone.
func maxTTL(c *config.Results) time.Duration {
	return max(config.Or(c.MaxTTL, budget.DefaultMaxTTL), config.Or(c.TTL, 0))
}

// sharedStore is the store of the configurations that are in use: the one that is served, the one before it for as long as calls
// of it run, and one that is about to be served, or refused. It holds as much as the largest of their bounds says: so none of
// them loses what another has kept, and one that is refused changes nothing. It opens its driver at first use: a command that
// keeps no result and fetches none needs no cache folder.
type sharedStore struct {
	open func() (budget.Driver, error) // opens once
	used atomic.Bool
	most atomic.Int64

	mu     sync.Mutex
	bounds map[*lentDriver]int64
}

func newSharedStore(open func(maxBytes int64) (budget.Driver, error)) *sharedStore {
	s := &sharedStore{bounds: map[*lentDriver]int64{}}
	s.open = sync.OnceValues(func() (budget.Driver, error) { return open(s.most.Load()) })
	return s
}

// bound takes note of how much one who uses the store would have it hold, which is in range.
func (s *sharedStore) bound(of *lentDriver, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds[of] = most
	s.rebound()
}

// unbound forgets one who does not use it any more.
func (s *sharedStore) unbound(of *lentDriver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bounds, of)
	if len(s.bounds) > 0 { // else it is closed
		s.rebound()
	}
}

// rebound has the driver hold what it should. The caller holds the lock.
func (s *sharedStore) rebound() {
	most := slices.Max(slices.Collect(maps.Values(s.bounds)))
	if s.most.Swap(most) == most || !s.used.Load() {
		return // who opens it later looks first
	}
	if d, err := s.open(); err == nil {
		_ = d.SetMaxBytes(most) // which is in range
	}
}

func (s *sharedStore) driver() (budget.Driver, error) {
	s.used.Store(true)
	return s.open()
}

// Put implements budget.Driver.
func (s *sharedStore) Put(ctx context.Context, key string, e budget.Entry) error {
	d, err := s.driver()
	if err != nil {
		return err
	}
	return d.Put(ctx, key, e)
}

// Get implements budget.Driver.
func (s *sharedStore) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	d, err := s.driver()
	if err != nil {
		return budget.Entry{}, err
	}
	return d.Get(ctx, key, admit)
}

// Touch implements budget.Driver.
func (s *sharedStore) Touch(ctx context.Context, key string, expires time.Time) error {
	d, err := s.driver()
	if err != nil {
		return err
	}
	return d.Touch(ctx, key, expires)
}

// Delete implements budget.Driver.
func (s *sharedStore) Delete(ctx context.Context, key string) error {
	d, err := s.driver()
	if err != nil {
		return err
	}
	return d.Delete(ctx, key)
}

// SetMaxBytes implements budget.Driver. Those who use the store say their bounds by bound instead.
func (s *sharedStore) SetMaxBytes(maxBytes int64) error {
	d, err := s.driver()
	if err != nil {
		return err
	}
	return d.SetMaxBytes(maxBytes)
}

// Close implements budget.Driver.
func (s *sharedStore) Close() error {
	if !s.used.Load() {
		return nil
	}
	if d, err := s.open(); err == nil {
		return d.Close()
	}
	return nil // whoever used it was told
}
