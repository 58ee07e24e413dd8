package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/steps"
)

// A key identifies a function and its arguments. It is a hash, so that arguments are not kept in memory.
type key [sha256.Size]byte

// identity identifies a function in its current form.
type identity [sha256.Size]byte

// identify hashes the parts of a function whose change makes it another function, because an old answer may not fit the new one. Defaults
// and aliases are not included, because they are already applied to the arguments. What callers get with credentials of their own is
// another function for each credential.
func identify(spec *steps.Spec) identity {
	h := sha256.New()
	pieces := []string{spec.Name, spec.Description, string(spec.Input), string(spec.Output), spec.Effect.String(), spec.Credential}
	for _, piece := range pieces {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(piece)))
		h.Write(length[:])
		h.Write([]byte(piece))
	}
	return identity(h.Sum(nil))
}

// maxPooled bounds the buffers that are reused for later keys.
const maxPooled = 64 << 10

var buffers = sync.Pool{New: func() any { return new(jsontext.Value) }}

// key returns the key of a call. storing reports whether the caller has a result store, because the answer may depend on it. It returns
// false if the arguments are ambiguous (a duplicate key): such a call is not cached.
func (f *function) key(args []byte, storing bool) (key, bool) {
	buffer := buffers.Get().(*jsontext.Value)
	defer func() {
		if cap(*buffer) <= maxPooled {
			buffers.Put(buffer)
		}
	}()
	*buffer = append((*buffer)[:0], args...)
	// RFC 8785 except for numbers, which it would round to 64 bits.
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
