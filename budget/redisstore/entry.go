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

// The server stores one string under each key: a header, the owner, and the value, plain or as one zstd frame.
// The header:
//
//	20 bytes  creation time, in microseconds since 1970 by the server's clock: decimal, with leading zeros
//	 4 bytes  magic
//	 1 byte   form of the value
//	 2 bytes  length of the owner, little-endian like the next two numbers
//	 8 bytes  length of the value before compression
//	 4 bytes  CRC-32C of the header from the magic to here, the id, the owner, and the value as stored
//
// The time is text because a script corrects it if a replica's clock differs from the server's. It is not part of the checksum.
const (
	createdSize = 20
	magic       = "ocr1"
	ownerAt     = createdSize + len(magic) + 1
	sumAt       = ownerAt + 2 + 8
	headerSize  = sumAt + 4
	maxOwner    = 256     // bytes
	maxEncoded  = 1 << 30 // the maximum bytes of a value that is compressed; larger ones are stored plain
)

// The forms of a value.
const (
	formPlain = 'p'
	formZstd  = 'z'
)

// errDamaged is the error for a string that this package did not write for that id.
var errDamaged = errors.New("damaged result")

var checksums = crc32.MakeTable(crc32.Castagnoli)

// codec encodes and decodes entries. It is safe for concurrent use.
type codec struct {
	compress int // size of the smallest value that is compressed; below 0: none
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

// encode returns the string to store for an entry. The caller checks the length of the owner.
func (c *codec) encode(id string, e budget.Entry) []byte {
	n := len(e.Value)
	head := make([]byte, 0, headerSize+len(e.Owner))
	head = fmt.Appendf(head, "%0*d", createdSize, micros(e.Created))
	head = append(head, magic...)
	head = append(head, formPlain)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(e.Owner)))
	head = binary.LittleEndian.AppendUint64(head, uint64(n))
	head = append(head, 0, 0, 0, 0) // the checksum is set below
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

// head has the fields at the beginning of a string.
type head struct {
	budget.Entry // the entry without its value and its expiry
	form         byte
	size         uint64 // bytes of the value
	length       int    // bytes before the value
}

// readHead decodes the beginning of a string without verifying its checksum, which needs the whole string.
func readHead(prefix []byte) (head, error) {
	if len(prefix) < headerSize {
		return head{}, errDamaged
	}
	created, err := strconv.ParseInt(string(prefix[:createdSize]), 10, 64)
	fixed := prefix[createdSize:headerSize]
	if err != nil || string(fixed[:len(magic)]) != magic {
		return head{}, errDamaged
	}
	h := head{form: fixed[len(magic)], size: binary.LittleEndian.Uint64(fixed[len(magic)+3:])}
	owner := int(binary.LittleEndian.Uint16(prefix[ownerAt:]))
	h.length = headerSize + owner
	if owner > maxOwner || len(prefix) < h.length || h.size > math.MaxInt64 {
		return head{}, errDamaged
	}
	h.Owner, h.Created = string(prefix[headerSize:h.length]), time.UnixMicro(created)
	return h, nil
}

// decode decodes a string to an entry without its expiry, which the string does not contain. The value may be a slice of whole. decode
// returns errDamaged if encode did not make whole for this id.
func (c *codec) decode(id string, whole []byte) (budget.Entry, error) {
	h, err := readHead(whole)
	if err != nil || binary.LittleEndian.Uint32(whole[sumAt:]) != checksum(id, whole) {
		return budget.Entry{}, errDamaged
	}
	h.Value, err = c.value(h.form, whole[h.length:], h.size)
	return h.Entry, err
}

// value decodes a stored value. size is its length before compression.
func (c *codec) value(form byte, stored []byte, size uint64) ([]byte, error) {
	value := stored
	switch {
	case form == formZstd && size <= maxEncoded:
		// Few results compress to less than 1/64 of their size: allocate 64 times the stored size now, and more when it is needed.
		var err error
		if value, err = c.decoder.DecodeAll(stored, make([]byte, 0, min(int(size), 64*len(stored)+1<<20))); err != nil {
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

// checksum returns the checksum of a whole string under an id.
func checksum(id string, whole []byte) uint32 {
	sum := crc32.Update(0, checksums, whole[createdSize:sumAt])
	sum = crc32.Update(sum, checksums, []byte(id))
	return crc32.Update(sum, checksums, whole[headerSize:])
}

// maxMicros is the last time in microseconds that the server's scripts can represent: their numbers are floating-point.
const maxMicros = 1<<53 - 1

// micros converts a time to microseconds since 1970 that the scripts can represent: one beyond maxMicros becomes the nearest that they can.
func micros(t time.Time) int64 {
	return min(max(t.UnixMicro(), -maxMicros), maxMicros)
}
