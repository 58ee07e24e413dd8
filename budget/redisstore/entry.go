package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/onecall-mcp/onecall/budget"
)

// What the server keeps under one key, as one string: a header, the owner, and the value, as it is or as one zstd frame.
// The header:
//
//	20 bytes  when it was created, in microseconds since 1970 by the server's clock: decimal, with leading zeros
//	 4 bytes  magic
//	 1 byte   form of the value
//	 2 bytes  length of the owner, little-endian, as all that follows
//	 8 bytes  length of the value
//	 4 bytes  CRC-32C of the header from the magic on, the owner, the id and the value as it is kept
//
// The time is text because a script writes it where a replica's clock is not the server's; it is not part of the sum.
const (
	createdSize = 20
	magic       = "ocr1"
	ownerAt     = createdSize + len(magic) + 1
	sumAt       = ownerAt + 2 + 8
	headerSize  = sumAt + 4
	maxOwner    = 256     // bytes
	maxEncoded  = 1 << 30 // bytes of a value that is compressed; a larger one is kept as it is
)

// The forms of a value.
const (
	formPlain = 'p'
	formZstd  = 'z'
)

// errDamaged is a string that is not what this package wrote for that id.
var errDamaged = errors.New("damaged result")

var checksums = crc32.MakeTable(crc32.Castagnoli)

// codec turns entries into what the server keeps, and back. It is safe for concurrent use.
type codec struct {
	compress int // bytes of the smallest value that is compressed; below 0: none is
	encoder  *zstd.Encoder
	decoder  *zstd.Decoder
}

func newCodec(compress int) (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxEncoded))
	return &codec{compress, encoder, decoder}, err
}

func (c *codec) close() {
	_ = c.encoder.Close()
	c.decoder.Close()
}

// encode gives the string to keep for an entry, whose owner is short enough, under an id.
func (c *codec) encode(id string, e budget.Entry) []byte {
	n := len(e.Value)
	head := make([]byte, 0, headerSize+len(e.Owner))
	head = fmt.Appendf(head, "%0*d", createdSize, micros(e.Created))
	head = append(head, magic...)
	head = append(head, formPlain)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(e.Owner)))
	head = binary.LittleEndian.AppendUint64(head, uint64(n))
	head = append(head, 0, 0, 0, 0)
	head = append(head, e.Owner...)

	var whole []byte
	if c.compress >= 0 && n >= c.compress && n <= maxEncoded {
		head[createdSize+len(magic)] = formZstd
		whole = c.encoder.EncodeAll(e.Value, append(make([]byte, 0, len(head)+n/4), head...))
	}
	if whole == nil || len(whole) >= len(head)+n {
		head[createdSize+len(magic)] = formPlain
		whole = append(append(make([]byte, 0, len(head)+n), head...), e.Value...)
	}
	binary.LittleEndian.PutUint32(whole[sumAt:], checksum(id, whole))
	return whole
}

// head is what the beginning of a string tells.
type head struct {
	budget.Entry // without its value, and when it expires
	form         byte
	size         uint64 // bytes of the value
	length       int    // bytes before the value
}

// readHead reads the beginning of what was kept, as it says itself: the sum is for the whole.
func readHead(begin []byte) (head, error) {
	if len(begin) < headerSize {
		return head{}, errDamaged
	}
	created, err := strconv.ParseInt(string(begin[:createdSize]), 10, 64)
	fixed := begin[createdSize:headerSize]
	if err != nil || string(fixed[:len(magic)]) != magic {
		return head{}, errDamaged
	}
	h := head{form: fixed[len(magic)], size: binary.LittleEndian.Uint64(fixed[len(magic)+3:])}
	owner := int(binary.LittleEndian.Uint16(begin[ownerAt:]))
	h.length = headerSize + owner
	if owner > maxOwner || len(begin) < h.length || h.size > math.MaxInt64 {
		return head{}, errDamaged
	}
	h.Owner, h.Created = string(begin[headerSize:h.length]), time.UnixMicro(created)
	return h, nil
}

// decode reads what was kept under an id, except when it expires. The value may be part of whole. Whatever encode did not
// make for this id is errDamaged.
func (c *codec) decode(id string, whole []byte) (budget.Entry, error) {
	h, err := readHead(whole)
	if err != nil || binary.LittleEndian.Uint32(whole[sumAt:]) != checksum(id, whole) {
		return budget.Entry{}, errDamaged
	}
	h.Value, err = c.value(h.form, whole[h.length:], h.size)
	return h.Entry, err
}

// value gives the value of a form and a length.
func (c *codec) value(form byte, kept []byte, size uint64) ([]byte, error) {
	value := kept
	switch {
	case form == formZstd && size <= maxEncoded:
		// Results are seldom compressed to less than a 64th: room for that at once, for more when it is there.
		var err error
		if value, err = c.decoder.DecodeAll(kept, make([]byte, 0, min(int(size), 64*len(kept)+1<<20))); err != nil {
			return nil, errDamaged
		}
	case form != formPlain:
		return nil, errDamaged
	}
	if uint64(len(value)) != size {
		return nil, errDamaged
	}
	return value, nil
}

// checksum is that of a whole string under an id.
func checksum(id string, whole []byte) uint32 {
	sum := crc32.Update(0, checksums, whole[createdSize:sumAt])
	sum = crc32.Update(sum, checksums, []byte(id))
	return crc32.Update(sum, checksums, whole[headerSize:])
}

// farthest is the last time that the server's scripts can count in microseconds (their numbers are floating-point).
const farthest = 1<<53 - 1

// micros is a time as the scripts count it.
func micros(t time.Time) int64 {
	return min(max(t.UnixMicro(), -farthest), farthest)
}
