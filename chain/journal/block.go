package journal

import "encoding/binary"

// Block is binary data in the result of a call, which stands there by its handle.
type Block struct {
	Handle, Type, URI, MIME string
	Bytes                   []byte
}

// encode returns the block as its segment stores it: each text with its length, then the bytes.
func (b *Block) encode() []byte {
	text := make([]byte, 0, len(b.Handle)+len(b.Type)+len(b.URI)+len(b.MIME)+4*binary.MaxVarintLen64+len(b.Bytes))
	for _, part := range []string{b.Handle, b.Type, b.URI, b.MIME} {
		text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
	}
	return append(text, b.Bytes...)
}

// decodeBlock decodes what encode returned. The block shares the memory of text.
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

// blockBytes is the size of the blocks of an event.
func (e *Event) blockBytes() (n int) {
	for i := range e.Blocks {
		n += len(e.Blocks[i].Bytes)
	}
	return n
}

// dropResult drops the result of a call, with its blocks.
func (e *Event) dropResult() { e.Result, e.Blocks = nil, nil }
