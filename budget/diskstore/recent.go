package diskstore

import (
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// DefaultMaxDecoded is how much is kept decoded where Options do not say it.
	DefaultMaxDecoded = 64 << 20

	leastDecoded = 256 << 10   // bytes of a value that is worth keeping: a smaller one is decoded in a moment
	idleDecoded  = time.Minute // without a use, after which all are let go of
)

// recent holds the values that were decoded last, so that a client that pages through a large one does not have it
// decoded for each page. It holds what a file held: whoever asks has opened that very file, and so knows that it is still
// there, whole, and not expired.
type recent struct {
	most int64 // bytes of all values together

	mu     sync.Mutex
	values *simplelru.LRU[string, *decoded]
	bytes  int64
	idle   *time.Timer // nil while there is nothing to let go of
}

// decoded is a value and the file that it was in.
type decoded struct {
	file   os.FileInfo
	header header // without the expiry, which changes in place
	value  []byte
}

func newRecent(most int64) (*recent, error) {
	r := &recent{most: most}
	var err error
	r.values, err = simplelru.NewLRU(math.MaxInt, func(_ string, d *decoded) { r.bytes -= int64(len(d.value)) })
	return r, err
}

// worth tells whether a value of that size is kept at all.
func (r *recent) worth(size int64) bool { return size >= leastDecoded && size <= r.most }

// get gives what an open file holds, if it was decoded lately; else it makes room for it.
func (r *recent) get(name string, file os.FileInfo, h header) (value []byte, ok bool) {
	h.Expires = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, found := r.values.Get(name); found && d.header == h && os.SameFile(d.file, file) {
		r.used()
		return d.value, true
	}
	r.values.Remove(name)
	r.makeRoom(h.Size) // before it is decoded, so that both are never there at once
	return nil, false
}

// add keeps the value of a file, in place of those not used for the longest time.
func (r *recent) add(name string, file os.FileInfo, h header, value []byte) {
	h.Expires = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values.Remove(name)
	r.makeRoom(int64(len(value)))
	r.values.Add(name, &decoded{file, h, slices.Clip(value)})
	r.bytes += int64(len(value))
	r.used()
}

func (r *recent) makeRoom(size int64) {
	for r.bytes > 0 && r.bytes+size > r.most {
		r.values.RemoveOldest()
	}
}

// used puts off the time at which everything is let go of.
func (r *recent) used() {
	if r.idle == nil {
		r.idle = time.AfterFunc(idleDecoded, r.clear)
		return
	}
	r.idle.Reset(idleDecoded)
}

// clear lets go of everything.
func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values.Purge()
	if r.idle != nil {
		r.idle.Stop()
	}
}
