package bpe

import (
	_ "embed"
	"hash/maphash"
	"math"

	"github.com/klauspost/compress/zstd"
)

//go:generate go run ./internal/pack o200k_base.zst

// packed is the vocabulary, made by internal/pack: the lengths of all tokens, a byte each, in the order of their ranks,
// then the tokens' bytes in the same order, all of it compressed. VOCABULARY.md tells where it comes from.
//
//go:embed o200k_base.zst
var packed []byte

const (
	tokens  = 199_998 // ordinary tokens of o200k_base; their ranks are 0 to tokens-1
	longest = 128     // bytes of the longest token

	// In the table pairs, where else a rank stands, and what a lookup answers.
	absent = math.MaxUint32     // not a token, but its two bytes stand side by side in some token
	apart  = math.MaxUint32 - 1 // not a token, nor a part of any

	slots    = 1 << 19 // of the hash table: 38 % of them are used
	idBits   = 18      // of a slot: 1 + the rank; the rest are bits of the hash
	idMask   = 1<<idBits - 1
	tagShift = 64 - (32 - idBits)
)

// vocabulary answers the rank of a byte string: the lower, the earlier two tokens are merged into it.
type vocabulary struct {
	bytes []byte             // of all tokens, by rank
	start [tokens + 1]uint32 // where in bytes a token begins; the next begins where it ends
	table [slots]uint32      // open addressing; 0 is free
	pairs [1 << 16]uint32    // the rank of two bytes, or absent, or apart
	seed  maphash.Seed
}

// fewest is the least number of tokens that a text of n bytes can have.
func fewest(n int) int { return (n + longest - 1) / longest }

// newVocabulary unpacks the vocabulary. It panics only where the file that was built into the program is damaged.
func newVocabulary() *vocabulary {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic("bpe: " + err.Error())
	}
	defer d.Close()
	unpacked, err := d.DecodeAll(packed, nil)
	if err != nil {
		panic("bpe: the embedded vocabulary cannot be unpacked: " + err.Error())
	}
	v := &vocabulary{bytes: unpacked[tokens:], seed: maphash.MakeSeed()}
	for i := range v.pairs {
		v.pairs[i] = apart
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
		if p := pair(token, i); v.pairs[p] == apart {
			v.pairs[p] = absent
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

// pair is the place in the table pairs of the bytes before and at i.
func pair(text []byte, i int) int { return int(text[i-1])<<8 | int(text[i]) }

// rank returns the rank of b, or absent.
func (v *vocabulary) rank(b []byte) uint32 {
	if len(b) > longest {
		return absent
	}
	h := maphash.Bytes(v.seed, b)
	tag := uint32(h >> tagShift)
	for i := h % slots; ; i = (i + 1) % slots {
		e := v.table[i]
		if e == 0 {
			return absent
		}
		if e>>idBits == tag {
			id := e&idMask - 1
			if string(v.bytes[v.start[id]:v.start[id+1]]) == string(b) {
				return id
			}
		}
	}
}
