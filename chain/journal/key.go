package journal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"time"
)

// LeastKey is the least length of Options.Key, in bytes.
const LeastKey = 32

// keys are what is made of the journal's key: each use has its own.
type keys struct {
	mac  sync.Pool // of *macer
	seal cipher.AEAD
}

func newKeys(secret []byte) (*keys, error) {
	if len(secret) == 0 {
		secret = make([]byte, LeastKey)
		_, _ = rand.Read(secret) // it never fails
	}
	if len(secret) < LeastKey {
		return nil, fmt.Errorf("journal: the key has %d bytes, and needs %d at least", len(secret), LeastKey)
	}
	derive := func(use string) ([]byte, error) { return hkdf.Key(sha256.New, secret, nil, "onecall journal "+use, 32) }
	macKey, err := derive("mac")
	if err != nil {
		return nil, err
	}
	sealKey, err := derive("seal")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sealKey)
	if err != nil {
		return nil, err
	}
	k := &keys{}
	if k.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	k.mac.New = func() any { return &macer{hash: hmac.New(sha256.New, macKey)} }
	return k, nil
}

// macSize is the length of a MAC in bytes.
const macSize = 16

// MAC is an HMAC-SHA-256 (RFC 2104) of texts under the journal's key, cut to 16 bytes. It tells texts apart, and tells nobody
// without the key anything of them.
func (j *Journal) MAC(texts ...[]byte) []byte {
	m := j.keys.mac.Get().(*macer)
	defer j.keys.mac.Put(m)
	m.hash.Reset()
	for _, text := range texts {
		m.room = binary.BigEndian.AppendUint64(m.room[:0], uint64(len(text)))
		m.hash.Write(m.room)
		m.hash.Write(text)
	}
	m.room = m.hash.Sum(m.room[:0])
	return slices.Clone(m.room[:macSize])
}

// macer is a hash, and room for what is written and read of it.
type macer struct {
	hash hash.Hash
	room []byte
}

// place is what a sealed text is bound to: it opens nowhere else.
func place(run string, s *Segment, what string) []byte {
	return fmt.Appendf(nil, "%s %d %d %s", run, s.Lease, s.First, what)
}

func (k *keys) close(plain []byte, at []byte) []byte {
	if len(plain) == 0 {
		return nil
	}
	return k.seal.Seal(nil, nil, plain, at)
}

// ErrUnreadable tells that what a run has done cannot be read.
var ErrUnreadable = errors.New("journal: the run cannot be read")

var errSealed = fmt.Errorf("%w: the journal's key is another one, or the journal was changed", ErrUnreadable)

func (k *keys) open(sealed []byte, at []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := k.seal.Open(nil, nil, sealed, at)
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// IDPrefix is how the id of each run begins.
const IDPrefix = "run_"

// newID is an id that nobody can guess, in lower case: 20 bits of the time in seconds, and 108 random bits. Runs of about the same time are
// neighbors in an index by id, so that a transaction writes few of its pages.
func newID(now time.Time) string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	seconds := uint32(now.Unix()) << 12
	id[0], id[1], id[2] = byte(seconds>>24), byte(seconds>>16), byte(seconds>>8)|id[2]&0x0f
	return IDPrefix + lowerBase32.EncodeToString(id[:])
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idempotencyKey names one call of a run to a service. One that was taken back is another when it is made again: the service would answer as it
// did, and do nothing.
func (j *Journal) idempotencyKey(run string, m mac, ordinal, undone int) string {
	var n [8]byte
	binary.BigEndian.PutUint32(n[:], uint32(undone))
	binary.BigEndian.PutUint32(n[4:], uint32(ordinal))
	return "oc-" + hex.EncodeToString(j.MAC([]byte("idempotency key"), []byte(run), m[:], n[:]))
}
