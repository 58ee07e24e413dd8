package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"
)

// pool shares between apps what should stay open through a reload, by a hash of its settings: servers, documents, an issuer's
// keys, stores of results. The zero value is empty.
type pool struct {
	mu   sync.Mutex
	open map[string]*pooled
}

// pooled is closed by its last user.
type pooled struct {
	value io.Closer
	users int
}

// acquire returns the value under key, opened by open if nobody uses one yet. release may be called more than once. The values
// are acquired by one goroutine at a time.
func acquire[T io.Closer](p *pool, key string, open func() (T, error)) (value T, release func() error, err error) {
	p.mu.Lock()
	one := p.open[key]
	if one != nil {
		one.users++
	}
	p.mu.Unlock()
	if one == nil {
		if value, err = open(); err != nil {
			return value, nil, err
		}
		one = &pooled{value, 1}
		p.mu.Lock()
		if p.open == nil {
			p.open = map[string]*pooled{}
		}
		p.open[key] = one
		p.mu.Unlock()
	}
	value = one.value.(T) //nolint:forcetypeassert // a key begins with the kind of the value
	return value, sync.OnceValue(func() error { return p.release(key, one) }), nil
}

func (p *pool) release(key string, one *pooled) error {
	p.mu.Lock()
	one.users--
	last := one.users == 0
	if last && p.open[key] == one {
		delete(p.open, key)
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	return one.value.Close()
}

// forget removes key. Current users keep their value; the next one opens another.
func (p *pool) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, key)
}

// fingerprint is a hash of settings, which shows none of them.
func fingerprint(settings ...any) string {
	text, err := json.Marshal(settings)
	if err != nil { // such as a number that is none, which is a fault of the configuration: nothing is shared
		return rand.Text()
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
