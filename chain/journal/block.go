package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Block is binary data in the result of a call, which stands there by its handle.
type Block struct {
	Handle, Type, URI, MIME string
	Bytes                   []byte
}

// texts are what a segment stores of the block before its bytes.
func (b *Block) texts() []string { return []string{b.Handle, b.Type, b.URI, b.MIME} }

// appendBlock appends a block with its event's number: each text with its length, then the bytes.
func appendBlock(dst []byte, n int, b *Block) []byte {
	size := len(b.Bytes)
	for _, text := range b.texts() {
		size += uvarintSize(len(text)) + len(text)
	}
	dst = append(binary.AppendUvarint(dst, uint64(n)), byte(blockField))
	dst = binary.AppendUvarint(dst, uint64(size))
	for _, text := range b.texts() {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return append(dst, b.Bytes...)
}

func uvarintSize(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// decodeBlock decodes what appendBlock has written after the length. The block shares the memory of text.
func decodeBlock(text []byte) (b Block, err error) {
	for _, part := range []*string{&b.Handle, &b.Type, &b.URI, &b.MIME} {
		n, size := binary.Uvarint(text)
		if size <= 0 || uint64(len(text)-size) < n {
			return b, errDamaged
		}
		*part, text = string(text[size:size+int(n)]), text[size+int(n):]
	}
	b.Bytes = text
	return b, nil
}

// resultSize is the most that a result takes in a segment, with its blocks and room for the seal.
func (e *Event) resultSize() int {
	size := len(e.Result) + 2*binary.MaxVarintLen64 + 1
	for i := range e.Blocks {
		b := &e.Blocks[i]
		for _, text := range b.texts() {
			size += len(text) + binary.MaxVarintLen64
		}
		size += len(b.Bytes) + 2*binary.MaxVarintLen64 + 1
	}
	return size
}

// blockBytes is the size of the blocks of an event.
func (e *Event) blockBytes() (n int) {
	for i := range e.Blocks {
		n += len(e.Blocks[i].Bytes)
	}
	return n
}

// dropResult drops the result of a call, with its blocks.
func (e *Event) dropResult() { e.Result, e.Blocks = nil, nil }

// ComparableResult returns the result with the SHA-256 of the bytes of blocks in place of their handles, which differ from one run to the
// next. Arguments are stored so.
func (c *PastCall) ComparableResult() []byte {
	if len(c.Blocks) == 0 {
		return c.Result
	}
	var replacements []string // made in one pass: there may be many blocks
	for i := range c.Blocks {
		sum := sha256.Sum256(c.Blocks[i].Bytes)
		replacements = append(replacements, c.Blocks[i].Handle, "sha256:"+hex.EncodeToString(sum[:]))
	}
	return []byte(strings.NewReplacer(replacements...).Replace(string(c.Result)))
}
