package app

import (
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
)

// sharedSource is a source that several apps of a process may use. It notifies each of them of changes.
type sharedSource struct {
	steps.Live

	mu       sync.Mutex // held while watchers are called
	watchers map[*sourceUse]func()
}

func newSharedSource(source steps.Live) *sharedSource {
	s := &sharedSource{Live: source, watchers: map[*sourceUse]func(){}}
	source.Watch(s.changed)
	return s
}

func (s *sharedSource) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.watchers {
		changed()
	}
}

// settler is a source that waits until its functions are what it would list now.
type settler interface {
	Settle(ctx context.Context) error
}

// Settle waits until the functions of the source are those that it would list now.
func (s *sharedSource) Settle(ctx context.Context) error {
	if source, ok := s.Live.(settler); ok {
		return source.Settle(ctx)
	}
	return nil
}

// watch sets the watcher of a use; nil removes it. The removed watcher is not called after watch returns.
func (s *sharedSource) watch(use *sourceUse, changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, use)
	if changed != nil {
		s.watchers[use] = changed
	}
}

// sourceUse is one app's use of a shared source. A change of the source also flushes its answers from the app's call cache.
type sourceUse struct {
	*sharedSource
	name    string
	cache   *cache.Cache
	release func() error
}

// Watch implements steps.Live.
func (u *sourceUse) Watch(changed func()) {
	u.watch(u, func() {
		u.cache.Flush(u.name)
		changed()
	})
}

// Close implements steps.Source. The last use to be closed closes the source.
func (u *sourceUse) Close() error {
	u.watch(u, nil)
	return u.release()
}

// outdatedSource is a source that was made of files.
type outdatedSource interface{ outdated() bool } // whether they have changed since

// acquireSource returns the app's use of the source under key in the pool. A source that failed for good, or whose files have changed, is
// opened again.
func (a *App) acquireSource(name, key string, open func() (steps.Live, error)) (*sourceUse, error) {
	opened := false
	for {
		source, release, err := acquire(&a.process.pool, key, func() (*sharedSource, error) {
			opened = true
			source, err := open()
			if err != nil {
				return nil, err
			}
			return newSharedSource(source), nil
		})
		if err != nil {
			return nil, err
		}
		made, ok := source.Live.(outdatedSource)
		if opened || source.Status().State != steps.StateFailed && !(ok && made.outdated()) {
			a.sources[name] = source
			return &sourceUse{source, name, a.cache, release}, nil
		}
		a.process.pool.forget(key)
		_ = release() // a former app may still use it
	}
}
