package bpe

import (
	_ "embed"
	"hash/maphash"
	"math"

	"github.com/klauspost/compress/zstd"
)

//go:generate go run ./internal/pack o200k_base.zst

// packedVocabulary is made by internal/pack: the lengths of all tokens, one byte each, in the order of their ranks, then the tokens'
// bytes in the same order, compressed. VOCABULARY.md describes its origin.
//
//go:embed o200k_base.zst
var packedVocabulary []byte

const (
	tokens        = 199_998 // ordinary tokens of o200k_base; their ranks are 0 to tokens-1
	maxTokenBytes = 128     // length of the longest token

	// Values of the table pairs, and results of the method rank, that stand for no rank.
	notToken      = math.MaxUint32     // the bytes are not a token; in pairs, some longer token contains the two bytes side by side
	neverAdjacent = math.MaxUint32 - 1 // only in pairs: no token contains the two bytes side by side

	slots    = 1 << 19 // the slots of the hash table: 38 % of them are used
	idBits   = 18      // bits of a slot with 1 + the rank; the others are bits of the hash
	idMask   = 1<<idBits - 1
	tagShift = 64 - (32 - idBits) // shifts a hash so that only the bits that a slot has room for are left
)

// vocabulary maps a byte string to its rank. Tokens of lower rank are merged first.
type vocabulary struct {
	bytes []byte             // the bytes of all tokens, by rank
	start [tokens + 1]uint32 // where a token begins in bytes; the next begins where it ends
	table [slots]uint32      // open addressing; 0 is free
	pairs [1 << 16]uint32    // the rank of two bytes, notToken or neverAdjacent
	seed  maphash.Seed
}

// minTokens is the minimum number of tokens of a text of n bytes.
func minTokens(n int) int { return (n + maxTokenBytes - 1) / maxTokenBytes }

// newVocabulary unpacks the vocabulary. It panics only if the embedded file is damaged.
func newVocabulary() *vocabulary {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic("bpe: " + err.Error())
	}
	defer d.Close()
	unpacked, err := d.DecodeAll(packedVocabulary, nil)
	if err != nil {
		panic("bpe: the embedded vocabulary cannot be unpacked: " + err.Error())
	}
	v := &vocabulary{bytes: unpacked[tokens:], seed: maphash.MakeSeed()}
	for i := range v.pairs {
		v.pairs[i] = neverAdjacent
	}
	end := uint32(0)
	for id, n := range unpacked[:tokens] {
		v.start[id] = end
		end += uint32(n)
		v.insert(uint32(id), v.bytes[v.start[id]:end])
	}
	v.start[tokens] = end
	return v
}

func (v *vocabulary) insert(id uint32, token []byte) {
	for i := 1; i < len(token); i++ {
		if p := pair(token, i); v.pairs[p] == neverAdjacent {
			v.pairs[p] = notToken
		}
	}
	if len(token) == 2 {
		v.pairs[pair(token, 1)] = id
	}
	h := maphash.Bytes(v.seed, token)
	i := h % slots
	for v.table[i] != 0 {
		i = (i + 1) % slots
	}
	v.table[i] = uint32(h>>tagShift)<<idBits | (id + 1)
}

// pair returns the index in pairs of the bytes before and at i.
func pair(text []byte, i int) int { return int(text[i-1])<<8 | int(text[i]) }

// rank returns the rank of b, or notToken.
func (v *vocabulary) rank(b []byte) uint32 {
	if len(b) > maxTokenBytes {
		return notToken
	}
	h := maphash.Bytes(v.seed, b)
	tag := uint32(h >> tagShift)
	for i := h % slots; ; i = (i + 1) % slots {
		e := v.table[i]
		if e == 0 {
			return notToken
		}
		if e>>idBits == tag {
			id := e&idMask - 1
			if string(v.bytes[v.start[id]:v.start[id+1]]) == string(b) {
				return id
			}
		}
	}
}
