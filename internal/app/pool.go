package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"
)

// pool holds the resources that apps share and that stay open through a reload: servers, documents, an issuer's keys, result stores and
// journals. Their keys are made of their settings. The zero value is empty.
type pool struct {
	mu   sync.Mutex
	open map[string]*poolEntry
}

// poolEntry is closed by its last user.
type poolEntry struct {
	value io.Closer
	users int
}

// acquire returns the value under key. It calls open if the value is not in use. release may be called more than once. Only one goroutine
// may acquire at a time.
func acquire[T io.Closer](p *pool, key string, open func() (T, error)) (value T, release func() error, err error) {
	p.mu.Lock()
	entry := p.open[key]
	if entry != nil {
		entry.users++
	}
	p.mu.Unlock()
	if entry == nil {
		if value, err = open(); err != nil {
			return value, nil, err
		}
		entry = &poolEntry{value, 1}
		p.mu.Lock()
		if p.open == nil {
			p.open = map[string]*poolEntry{}
		}
		p.open[key] = entry
		p.mu.Unlock()
	}
	value = entry.value.(T) //nolint:forcetypeassert // a key begins with the kind of the value
	return value, sync.OnceValue(func() error { return p.release(key, entry) }), nil
}

func (p *pool) release(key string, entry *poolEntry) error {
	p.mu.Lock()
	entry.users--
	last := entry.users == 0
	if last && p.open[key] == entry {
		delete(p.open, key)
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	return entry.value.Close()
}

// forget removes key. Current users keep their value; the next acquire opens another.
func (p *pool) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, key)
}

// fingerprint returns a hash of settings that reveals none of them.
func fingerprint(settings ...any) string {
	text, err := json.Marshal(settings)
	if err != nil { // such as NaN, which is a fault of the configuration: share nothing
		return rand.Text()
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
