package app

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/internal/config"
)

// openResults opens the store of large results: on disk in the user's cache folder, in memory, or in the journal's database. defaultStore
// is used if the configuration names none. Apps with the same store share it, so that results survive a reload.
func (a *App) openResults(all *config.Config, defaultStore string) error {
	c := &all.Results
	maxBytes := int64(config.Or(c.MaxBytes, 0))
	where := config.Or(c.Store, defaultStore)
	database := config.Or(all.Journal.Store, "") // of "postgres"
	id := "results " + where
	if where == "postgres" {
		id += " " + database
	}
	driver, release, err := acquire(&a.process.pool, id, func() (budget.Driver, error) { return openStore(where, database, maxBytes) })
	if err != nil {
		return err
	}
	a.store, a.storeBytes = driver, maxBytes
	a.results, err = budget.NewResults(&storeUse{a.process.countedStore(driver), release}, &budget.ResultsOptions{
		TTL:      config.Or(c.TTL, 0),
		MaxTTL:   maxTTL(c),
		MaxBytes: maxBytes,
		PageSize: config.Or(c.PageSize, 0),
		Counter:  a.Counter,
	})
	a.closers = append(a.closers, a.results)
	return err
}

// storeUse is one app's use of a shared store. The last use to be closed closes the store.
type storeUse struct {
	budget.Driver
	release func() error
}

// Close implements budget.Driver.
func (u *storeUse) Close() error { return u.release() }

// maxTTL returns the configured maximum, or the ttl if that is larger.
func maxTTL(c *config.Results) time.Duration {
	return max(config.Or(c.MaxTTL, budget.DefaultMaxTTL), config.Or(c.TTL, 0))
}

// openStore opens a store. It neither connects to a server nor creates a folder before that is needed. database is the journal's.
func openStore(where, database string, maxBytes int64) (budget.Driver, error) {
	switch where {
	case "disk":
		d := &lazyDisk{maxBytes: maxBytes}
		d.open = sync.OnceValues(d.openFolder)
		return d, nil
	case "postgres":
		return pgstore.New(&pgstore.Options{URL: database, MaxBytes: maxBytes})
	}
	return memstore.New(&memstore.Options{MaxBytes: maxBytes})
}

// lazyDisk is a store on disk that is opened at first use: a command that neither stores nor fetches results needs no cache folder. If
// opening fails, every operation fails with that error.
type lazyDisk struct {
	open func() (budget.Driver, error) // runs once, even if it fails

	mu       sync.Mutex
	maxBytes int64
	opened   budget.Driver
}

func (l *lazyDisk) openFolder() (budget.Driver, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	store, err := diskstore.Open(filepath.Join(cache, "onecall", "results"), &diskstore.Options{MaxBytes: l.maxBytes})
	if err != nil {
		return nil, err
	}
	l.opened = store
	return store, nil
}

// Put implements budget.Driver.
func (l *lazyDisk) Put(ctx context.Context, key string, e budget.Entry) error {
	d, err := l.open()
	if err != nil {
		return err
	}
	return d.Put(ctx, key, e)
}

// Get implements budget.Driver.
func (l *lazyDisk) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	d, err := l.open()
	if err != nil {
		return budget.Entry{}, err
	}
	return d.Get(ctx, key, admit)
}

// Touch implements budget.Driver.
func (l *lazyDisk) Touch(ctx context.Context, key string, expires time.Time) error {
	d, err := l.open()
	if err != nil {
		return err
	}
	return d.Touch(ctx, key, expires)
}

// Delete implements budget.Driver.
func (l *lazyDisk) Delete(ctx context.Context, key string) error {
	d, err := l.open()
	if err != nil {
		return err
	}
	return d.Delete(ctx, key)
}

// SetMaxBytes implements budget.Driver. For a store that is not open yet, the limit is checked when it is opened.
func (l *lazyDisk) SetMaxBytes(maxBytes int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maxBytes = maxBytes; l.opened == nil {
		return nil
	}
	return l.opened.SetMaxBytes(maxBytes)
}

// Close implements budget.Driver.
func (l *lazyDisk) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
