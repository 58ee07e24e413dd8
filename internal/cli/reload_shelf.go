package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
)

// lasting is what an app has in common with the one that takes its place when the configuration is loaded anew.
type lasting struct {
	shelf     shelf
	caches    caches
	redactor  *redactor
	admission *admit.Limiter // of all callers, whatever the configuration that their chains began with
	session   *steps.Session // of the one client that there is; nil: there may be several, who have their own
}

// shelf holds what stays open when the configuration is loaded anew, by all that it was opened with: servers, documents, the
// store of results. The zero value is empty.
type shelf struct {
	mu   sync.Mutex
	kept map[string]*kept
}

// kept is one thing on the shelf. The last who gives it back closes it.
type kept struct {
	io.Closer
	users int
}

// loan is the use of a thing on the shelf until Close, which may be called more than once.
type loan[T io.Closer] struct {
	value T
	key   string
	was   bool // it was there before
	back  func() error
}

// Close implements io.Closer.
func (l *loan[T]) Close() error { return l.back() }

// take lends what is on the shelf under a key; where there is nothing, what open gives. Things are taken by one goroutine at a
// time.
func take[T io.Closer](s *shelf, key string, open func() (T, error)) (*loan[T], error) {
	s.mu.Lock()
	k := s.kept[key]
	if k != nil {
		k.users++
	}
	s.mu.Unlock()
	was := k != nil
	if !was {
		value, err := open()
		if err != nil {
			return nil, err
		}
		k = &kept{Closer: value, users: 1}
		s.mu.Lock()
		if s.kept == nil {
			s.kept = map[string]*kept{}
		}
		s.kept[key] = k
		s.mu.Unlock()
	}
	value := k.Closer.(T) //nolint:forcetypeassert // a key begins with the kind of the thing
	return &loan[T]{value, key, was, sync.OnceValue(func() error { return s.giveBack(key, k) })}, nil
}

func (s *shelf) giveBack(key string, k *kept) error {
	s.mu.Lock()
	k.users--
	last := k.users == 0
	if last && s.kept[key] == k {
		delete(s.kept, key)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	return k.Close()
}

// drop has nobody else lent what is under a key: whoever has it keeps it.
func (s *shelf) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, key)
}

// shelfKey is the key of a thing that was opened with these settings, which it does not show.
func shelfKey(kind, name string, settings ...any) string {
	hash := sha256.New()
	for _, one := range settings {
		for _, pair := range flatten(one) {
			fmt.Fprintf(hash, "%q=%q\n", pair.at, pair.text)
		}
		fmt.Fprintln(hash)
	}
	return kind + " " + name + " " + hex.EncodeToString(hash.Sum(nil))
}

// caches are the call caches of the configurations in use: a write through one may change what another has kept.
type caches struct {
	mu  sync.Mutex
	all []*cache.Cache
}

func (c *caches) add(one *cache.Cache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

func (c *caches) remove(one *cache.Cache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *cache.Cache) bool { return other == one })
}

// flush drops what the other caches than one hold of a source.
func (c *caches) flush(but *cache.Cache, source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cache := range c.all {
		if cache != but {
			cache.Flush(source)
		}
	}
}

// wrap has the writes through a cache's functions be heard of by the other caches.
func (c *caches) wrap(cache *cache.Cache, r *steps.Registry) *steps.Registry {
	return cache.Wrap(r.Wrap(func(spec *steps.Spec, next steps.Call) steps.Call {
		if spec.Effect == steps.Read {
			return next
		}
		source := spec.Source()
		return func(ctx context.Context, args []byte) ([]byte, error) {
			c.flush(cache, source)
			defer c.flush(cache, source) // also of what was read meanwhile
			return next(ctx, args)
		}
	}))
}

// redactor takes the secrets of the configurations in use out of what is logged and warned of. The zero value knows none.
type redactor struct {
	now atomic.Pointer[secret.Scrubber]

	mu sync.Mutex
	of map[*app][]string
}

// Text is a text without the secrets.
func (r *redactor) Text(text string) string { return r.now.Load().Text(text) }

// Fault is a fault without the secrets.
func (r *redactor) Fault(f *fault.Error) *fault.Error { return steps.ScrubFault(r.now.Load(), f) }

// learn has the secrets of an app be taken out, and forget no more, unless it is the last one.
func (r *redactor) learn(a *app, secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[*app][]string{}
	}
	r.of[a] = secrets
	r.renew()
}

func (r *redactor) forget(a *app) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.of, a); len(r.of) > 0 {
		r.renew()
	}
}

func (r *redactor) renew() {
	var all []string
	for _, secrets := range r.of {
		all = append(all, secrets...)
	}
	r.now.Store(secret.New(all))
}
