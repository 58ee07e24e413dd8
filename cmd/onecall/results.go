package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/redisstore"
)

// newResults makes the store of large results: on disk, in the user's cache folder, where later commands can fetch them, or in
// memory. store is the one of a configuration that says none. A configuration that takes the place of another has the same
// store where that is in the same place, and as large: what was kept stays. watched gives the driver whose use is told of.
func newResults(s *shelf, c *resultsConfig, store string, counter budget.Counter, watched func(budget.Driver) budget.Driver) (*budget.Results, error) {
	maxBytes := int64(valueOr(c.MaxBytes, 0))
	open := func() (budget.Driver, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		return diskstore.Open(filepath.Join(cache, "onecall", "results"), &diskstore.Options{MaxBytes: maxBytes})
	}
	where := valueOr(c.Store, store)
	switch where {
	case "disk":
	case "memory":
		open = func() (budget.Driver, error) { return memstore.New(&memstore.Options{MaxBytes: maxBytes}) }
	default: // of a server, which is not asked before it is needed
		shared, err := redisstore.New(&redisstore.Options{URL: where, MaxBytes: maxBytes})
		if err != nil {
			return nil, err
		}
		open = func() (budget.Driver, error) { return shared, nil }
	}
	lent, err := take(s, shelfKey("results", "", where, maxBytes), lazy(open))
	if err != nil {
		return nil, err
	}
	results, err := budget.NewResults(&lentDriver{watched(lent.value), lent}, &budget.ResultsOptions{
		TTL:      valueOr(c.TTL, 0),
		MaxTTL:   maxTTL(c),
		MaxBytes: maxBytes,
		PageSize: valueOr(c.PageSize, 0),
		Counter:  counter,
	})
	if err != nil {
		lent.Close()
	}
	return results, err
}

// lentDriver is a driver that others may use as well.
type lentDriver struct {
	budget.Driver
	loan *loan[*lazyDriver]
}

// Close implements budget.Driver.
func (l *lentDriver) Close() error { return l.loan.Close() }

// maxTTL is the configured one, and never below a ttl that was raised alone.
func maxTTL(c *resultsConfig) time.Duration {
	return max(valueOr(c.MaxTTL, budget.DefaultMaxTTL), valueOr(c.TTL, 0))
}

// lazyDriver opens its driver at first use: a command that keeps no result and fetches none needs no cache folder.
type lazyDriver struct {
	open func() (budget.Driver, error) // opens once
	used atomic.Bool
}

func lazy(open func() (budget.Driver, error)) func() (*lazyDriver, error) {
	return func() (*lazyDriver, error) { return &lazyDriver{open: sync.OnceValues(open)}, nil }
}

func (l *lazyDriver) driver() (budget.Driver, error) {
	l.used.Store(true)
	return l.open()
}

func (l *lazyDriver) Put(ctx context.Context, key string, e budget.Entry) error {
	d, err := l.driver()
	if err != nil {
		return err
	}
	return d.Put(ctx, key, e)
}

func (l *lazyDriver) Get(ctx context.Context, key string) (budget.Entry, error) {
	d, err := l.driver()
	if err != nil {
		return budget.Entry{}, err
	}
	return d.Get(ctx, key)
}

func (l *lazyDriver) Touch(ctx context.Context, key string, expires time.Time) error {
	d, err := l.driver()
	if err != nil {
		return err
	}
	return d.Touch(ctx, key, expires)
}

func (l *lazyDriver) Delete(ctx context.Context, key string) error {
	d, err := l.driver()
	if err != nil {
		return err
	}
	return d.Delete(ctx, key)
}

func (l *lazyDriver) Close() error {
	if !l.used.Load() {
		return nil
	}
	if d, err := l.open(); err == nil {
		return d.Close()
	}
	return nil // whoever used it was told
}
