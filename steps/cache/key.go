package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/steps"
)

// A key stands for a function and its arguments. It is a hash, so that arguments are not kept in memory.
type key [sha256.Size]byte

// identity stands for a function as it is now.
type identity [sha256.Size]byte

// identify hashes what, if it changes, makes another function of it: an old answer may not be one of the new function.
// Defaults and aliases are not among it, as arguments come with them applied.
func identify(spec *steps.Spec) identity {
	h := sha256.New()
	for _, part := range []string{spec.Name, spec.Description, string(spec.Input), string(spec.Output), spec.Effect.String()} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return identity(h.Sum(nil))
}

// maxPooled bounds the buffers that are kept for the next key.
const maxPooled = 64 << 10

var buffers = sync.Pool{New: func() any { return new(jsontext.Value) }}

// key is that of a call. storing reports whether the caller offers a result store: the answer may depend on that. It is
// false where arguments can be read in two ways (a key that stands twice): such a call is not cached.
func (f *function) key(args []byte, storing bool) (key, bool) {
	buffer := buffers.Get().(*jsontext.Value)
	defer func() {
		if cap(*buffer) <= maxPooled {
			buffers.Put(buffer)
		}
	}()
	*buffer = append((*buffer)[:0], args...)
	// RFC 8785 but for numbers, which it would round to 64 bits.
	if err := buffer.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return key{}, false
	}
	last := byte(0)
	if storing {
		last = 1
	}
	*buffer = append(append(*buffer, f.identity[:]...), last)
	return sha256.Sum256(*buffer), true
}
