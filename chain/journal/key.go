package journal

import (
	"cmp"
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

	"github.com/onecall-mcp/onecall/fault"
)

// MinKeyBytes is the minimum length of Options.Key, in bytes.
const MinKeyBytes = 32

// keys are derived from the journal's key, one for each use.
type keys struct {
	mac  sync.Pool // a pool of *hasher
	seal cipher.AEAD
	id   [keyIDSize]byte // tells the journal's key from others
}

const keyIDSize = 4

func newKeys(secret []byte) (*keys, error) {
	if len(secret) == 0 {
		secret = make([]byte, MinKeyBytes)
		_, _ = rand.Read(secret) // never fails
	}
	if len(secret) < MinKeyBytes {
		return nil, fmt.Errorf("journal: the key has %d bytes, but needs at least %d", len(secret), MinKeyBytes)
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
	id, err := derive("id")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sealKey)
	if err != nil {
		return nil, err
	}
	k := &keys{id: [keyIDSize]byte(id)}
	if k.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	k.mac.New = func() any { return &hasher{hash: hmac.New(sha256.New, macKey)} }
	return k, nil
}

// macSize is the length of a MAC in bytes.
const macSize = 16

// MAC returns an HMAC-SHA-256 (RFC 2104) of texts under the journal's key, cut to 16 bytes. It identifies texts and reveals nothing of them
// without the key.
func (j *Journal) MAC(texts ...[]byte) []byte { return j.keys.macOf(texts...) }

func (k *keys) macOf(texts ...[]byte) []byte {
	m := k.mac.Get().(*hasher)
	defer k.mac.Put(m)
	m.hash.Reset()
	for _, text := range texts {
		m.buf = binary.BigEndian.AppendUint64(m.buf[:0], uint64(len(text)))
		m.hash.Write(m.buf)
		m.hash.Write(text)
	}
	m.buf = m.hash.Sum(m.buf[:0])
	return slices.Clone(m.buf[:macSize])
}

// hasher is a hash with a buffer for its input and output.
type hasher struct {
	hash hash.Hash
	buf  []byte
}

// sealContext returns the additional authenticated data that binds an encrypted text to its run, segment and use: it cannot be decrypted as
// another text.
func sealContext(run string, s *Segment, what string) []byte {
	return fmt.Appendf(nil, "%s %d %d %s", run, s.Lease, s.First, what)
}

func (k *keys) sealText(plain, aad []byte) []byte {
	if len(plain) == 0 {
		return nil
	}
	return k.seal.Seal(nil, nil, plain, aad)
}

// sealInPlace is sealText that overwrites the text, and uses the room after it.
func (k *keys) sealInPlace(plain, aad []byte) []byte {
	if len(plain) == 0 {
		return nil
	}
	return k.seal.Seal(plain[:0], nil, plain, aad)
}

// ErrUnreadable reports that a run cannot be read: it was written with another key, a part of it is missing, or a part was changed. Nothing
// that it did may be repeated or undone then, since it is not known what it did.
var ErrUnreadable = errors.New("journal: the run cannot be read")

// ErrOtherKey is the ErrUnreadable of a run that was written with another key.
var ErrOtherKey = fmt.Errorf("%w: it was written with another key", ErrUnreadable)

// errDamaged is the ErrUnreadable of a run of which a part is missing or was changed.
var errDamaged = fmt.Errorf("%w: a part of it is missing or was changed", ErrUnreadable)

// explain returns an error of reading a run as a coded error with a remedy. Any other error it returns as it is.
func (j *Journal) explain(run string, err error) error {
	var f *fault.Error
	switch {
	case errors.Is(err, ErrOtherKey):
		f = fault.New(fault.Unreadable, "%s was written with another key than the one in use now, %s: put the earlier key back, and give the "+
			"same command again; without it nobody knows what the run did, and it can be neither resumed nor undone", run, cmp.Or(j.o.KeyPlace, "in memory"))
	case errors.Is(err, ErrUnreadable):
		f = fault.New(fault.Unreadable, "%s cannot be read, since a part of it is missing from the journal (%s) or was changed: it can be "+
			"neither resumed nor undone; put a backup of the journal back, or look at the services for what it did; onecall doctor "+
			"checks the journal", run, cmp.Or(j.o.Place, "in memory"))
	default:
		return err
	}
	f.Err = err
	return f
}

func (k *keys) openText(sealed, aad []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := k.seal.Open(nil, nil, sealed, aad)
	if err != nil {
		return nil, errDamaged
	}
	return plain, nil
}

// IDPrefix begins the id of each run.
const IDPrefix = "run_"

// newID returns an id that cannot be guessed, in lower case: the lowest 20 bits of the time in seconds, which repeat after 12 days, and 108
// random bits. Runs of about the same time are neighbors in an index by id, so that a transaction writes few pages of it.
func newID(now time.Time) string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	seconds := uint32(now.Unix()) << 12
	id[0], id[1], id[2] = byte(seconds>>24), byte(seconds>>16), byte(seconds>>8)|id[2]&0x0f
	return IDPrefix + lowerBase32.EncodeToString(id[:])
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idempotencyKey identifies one call of a run to a service. A call that was undone gets another key when it is made again: with the same
// one the service would repeat its answer and do nothing.
func (j *Journal) idempotencyKey(run string, m mac, ordinal, undone int) string {
	var n [8]byte
	binary.BigEndian.PutUint32(n[:], uint32(undone))
	binary.BigEndian.PutUint32(n[4:], uint32(ordinal))
	return "oc-" + hex.EncodeToString(j.MAC([]byte("idempotency key"), []byte(run), m[:], n[:]))
}
