// Package recent holds the values that a store has read last, and lets concurrent readers of a value share one read.
package recent

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// DefaultMaxBytes is how many bytes of values are held by default.
	DefaultMaxBytes = 64 << 20

	// MinSize is the size in bytes of the smallest value that is held. Smaller values are read quickly.
	MinSize = 256 << 10

	idleTimeout = time.Minute // the time without a read after which all values are released
)

// Values are recently read values by name, each with a version. The caller determines the current version before each Get, so a value
// that is returned still exists in the store. Values is safe for concurrent use.
type Values[M any] struct {
	maxBytes int64 // the maximum bytes of all values; below 0: none are held
	equal    func(a, b M) bool

	mu        sync.Mutex
	values    *simplelru.LRU[string, *value[M]]
	bytes     int64
	pending   map[string]*pendingRead[M]
	idleTimer *time.Timer // nil: nothing to release
}

type value[M any] struct {
	version M
	bytes   []byte
}

// pendingRead is a read in progress, shared by its readers.
type pendingRead[M any] struct {
	version M
	readers int
	cancel  context.CancelFunc
	done    chan struct{} // closed when value and err are set
	value   []byte
	err     error
}

// New returns Values of at most maxBytes; below 0: nothing is held. equal compares versions.
func New[M any](maxBytes int64, equal func(a, b M) bool) *Values[M] {
	v := &Values[M]{maxBytes: maxBytes, equal: equal, pending: map[string]*pendingRead[M]{}}
	// NewLRU fails only for a size below 1.
	v.values, _ = simplelru.NewLRU(math.MaxInt, func(_ string, old *value[M]) { v.bytes -= int64(len(old.bytes)) })
	return v
}

// Get returns the value with that name, version and size in bytes. It returns the held value, or calls read once for all concurrent
// readers. A value below MinSize, or of another version than the one that is being read, is read for its caller alone. A reader whose
// context ends gets the context's error. The context of a shared read ends when no reader is left. Callers must not change the value.
func (v *Values[M]) Get(ctx context.Context, name string, version M, size int64,
	read func(context.Context) ([]byte, error)) ([]byte, error) {
	if size < MinSize {
		return read(ctx)
	}
	v.mu.Lock()
	if entry, ok := v.values.Get(name); ok && v.equal(entry.version, version) {
		v.touch()
		v.mu.Unlock()
		return entry.bytes, nil
	}
	r := v.pending[name]
	switch {
	case r == nil:
		r = v.startRead(ctx, name, version, size, read)
	case !v.equal(r.version, version): // replaced meanwhile
		v.mu.Unlock()
		return read(ctx)
	}
	r.readers++
	v.mu.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		v.abandon(name, r)
		return nil, ctx.Err()
	}
}

// startRead starts a read. The caller holds the lock.
func (v *Values[M]) startRead(ctx context.Context, name string, version M, size int64,
	read func(context.Context) ([]byte, error)) *pendingRead[M] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &pendingRead[M]{version: version, cancel: cancel, done: make(chan struct{})}
	v.pending[name] = r
	v.values.Remove(name)
	if v.cacheable(size) {
		v.evict(size) // done before the read, so that the new and the evicted values are never held together
	}
	go func() {
		defer cancel()
		bytes, err := read(ctx)
		r.value, r.err = slices.Clip(bytes), err
		v.finishRead(name, r)
	}()
	return r
}

// finishRead passes the result to the readers and holds it.
func (v *Values[M]) finishRead(name string, r *pendingRead[M]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(r.done)
	if v.pending[name] != r {
		return // abandoned by all readers
	}
	delete(v.pending, name)
	if r.err == nil && v.cacheable(int64(len(r.value))) {
		v.add(name, r.version, r.value)
	}
}

// abandon removes one reader from a read. The last one cancels the read.
func (v *Values[M]) abandon(name string, r *pendingRead[M]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.readers--; r.readers == 0 && v.pending[name] == r {
		delete(v.pending, name)
		r.cancel()
	}
}

// cacheable reports whether a value of that size is held.
func (v *Values[M]) cacheable(size int64) bool { return size >= MinSize && size <= v.maxBytes }

func (v *Values[M]) add(name string, version M, bytes []byte) {
	v.values.Remove(name)
	v.evict(int64(len(bytes)))
	v.values.Add(name, &value[M]{version, bytes})
	v.bytes += int64(len(bytes))
	v.touch()
}

// evict releases the least recently used values until size more bytes fit.
func (v *Values[M]) evict(size int64) {
	for v.bytes > 0 && v.bytes+size > v.maxBytes {
		v.values.RemoveOldest()
	}
}

// touch restarts the idle timer.
func (v *Values[M]) touch() {
	if v.idleTimer == nil {
		v.idleTimer = time.AfterFunc(idleTimeout, v.clear)
		return
	}
	v.idleTimer.Reset(idleTimeout)
}

// Close releases everything. Reads that finish later are not held.
func (v *Values[M]) Close() {
	v.mu.Lock()
	v.maxBytes = -1
	v.mu.Unlock()
	v.clear()
}

// clear releases everything.
func (v *Values[M]) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values.Purge()
	if v.idleTimer != nil {
		v.idleTimer.Stop()
	}
}
