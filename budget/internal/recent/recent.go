// Package recent holds the values that a store has read last, and lets those who ask for one at once share one reading of it.
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
	// Default is how many bytes of values are held where a store's options do not say it.
	Default = 64 << 20

	// Least is the size of a value in bytes that is worth all this: a smaller one is read in a moment.
	Least = 256 << 10

	idle = time.Minute // without a use, after which all values are let go of
)

// Values are the values that were read last, each under a name, with a mark of what it was read from: whoever asks has looked
// where it is kept, and so knows that it is still there, and which it is. They are safe for concurrent use.
type Values[M any] struct {
	most int64 // bytes of all values together; below 0: none
	same func(a, b M) bool

	mu      sync.Mutex
	values  *simplelru.LRU[string, *value[M]]
	bytes   int64
	reading map[string]*reading[M]
	letGo   *time.Timer // nil while there is nothing to let go of
}

type value[M any] struct {
	mark  M
	bytes []byte
}

// reading is a reading under way, and those who wait for it.
type reading[M any] struct {
	mark    M
	readers int
	cancel  context.CancelFunc
	done    chan struct{} // closed when value and err are there
	value   []byte
	err     error
}

// New makes Values of so many bytes at most; below 0: nothing is held. Marks are of the same value where same says so.
func New[M any](most int64, same func(a, b M) bool) *Values[M] {
	v := &Values[M]{most: most, same: same, reading: map[string]*reading[M]{}}
	// It refuses only a size below 1.
	v.values, _ = simplelru.NewLRU(math.MaxInt, func(_ string, old *value[M]) { v.bytes -= int64(len(old.bytes)) })
	return v
}

// Get gives the value with that name and mark, of so many bytes: the one that is held, or what read gives, which is asked
// once for all who want it at the time. Each leaves with its own context, whose error it gets; the context of read ends when
// nobody waits any more. The value is for reading only.
func (v *Values[M]) Get(ctx context.Context, name string, mark M, size int64, read func(context.Context) ([]byte, error)) ([]byte, error) {
	if size < Least {
		return read(ctx)
	}
	v.mu.Lock()
	if held, ok := v.values.Get(name); ok && v.same(held.mark, mark) {
		v.used()
		v.mu.Unlock()
		return held.bytes, nil
	}
	r := v.reading[name]
	switch {
	case r == nil:
		r = v.begin(ctx, name, mark, size, read)
	case !v.same(r.mark, mark): // replaced meanwhile
		v.mu.Unlock()
		return read(ctx)
	}
	r.readers++
	v.mu.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		v.leave(name, r)
		return nil, ctx.Err()
	}
}

// begin begins to read. The caller holds the lock.
func (v *Values[M]) begin(ctx context.Context, name string, mark M, size int64, read func(context.Context) ([]byte, error)) *reading[M] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &reading[M]{mark: mark, cancel: cancel, done: make(chan struct{})}
	v.reading[name] = r
	v.values.Remove(name)
	if v.worth(size) {
		v.makeRoom(size) // before it is there, so that both are never there at once
	}
	go func() {
		defer cancel()
		bytes, err := read(ctx)
		r.value, r.err = slices.Clip(bytes), err
		v.end(name, r)
	}()
	return r
}

// end hands over what was read.
func (v *Values[M]) end(name string, r *reading[M]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(r.done)
	if v.reading[name] != r {
		return // everybody left
	}
	delete(v.reading, name)
	if r.err == nil && v.worth(int64(len(r.value))) {
		v.hold(name, r.mark, r.value)
	}
}

// leave lets one go that waits for a reading; the last ends it.
func (v *Values[M]) leave(name string, r *reading[M]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.readers--; r.readers == 0 && v.reading[name] == r {
		delete(v.reading, name)
		r.cancel()
	}
}

// worth reports whether a value of that size is held at all.
func (v *Values[M]) worth(size int64) bool { return size >= Least && size <= v.most }

func (v *Values[M]) hold(name string, mark M, bytes []byte) {
	v.values.Remove(name)
	v.makeRoom(int64(len(bytes)))
	v.values.Add(name, &value[M]{mark, bytes})
	v.bytes += int64(len(bytes))
	v.used()
}

// makeRoom lets go of the values that were not used for the longest time.
func (v *Values[M]) makeRoom(size int64) {
	for v.bytes > 0 && v.bytes+size > v.most {
		v.values.RemoveOldest()
	}
}

// used puts off the time at which everything is let go of.
func (v *Values[M]) used() {
	if v.letGo == nil {
		v.letGo = time.AfterFunc(idle, v.clear)
		return
	}
	v.letGo.Reset(idle)
}

// Close lets go of everything that is held, for good: what is read then, or was being read, is not held any more.
func (v *Values[M]) Close() {
	v.mu.Lock()
	v.most = -1
	v.mu.Unlock()
	v.clear()
}

// clear lets go of everything that is held.
func (v *Values[M]) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values.Purge()
	if v.letGo != nil {
		v.letGo.Stop()
	}
}
