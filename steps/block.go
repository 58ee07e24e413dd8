package steps

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Block is binary data that a function returns or takes: an image, a sound, a file. In a result it is the object
//
//	{"type":"image","mimeType":"image/png","size":5120,"data":"oc1_b…"}
//
// whose data is a handle. A reference that ends at data stands for the bytes; everything else sees the handle.
type Block struct {
	Type  string // image, audio or resource
	URI   string // of a resource; "": none
	MIME  string // "": application/octet-stream
	Bytes []byte // must not be changed
}

// KeptBlock is a block of a run, with its handle.
type KeptBlock struct {
	Handle string
	Block
	sum func() string // Digest, computed once; nil: the block is in no run yet
}

// Blocks are the blocks of one run: those that its functions return, by their handles. It is safe for concurrent use. A nil *Blocks has
// none.
//
// An argument that refers to the bytes of a block holds a mark in their place until the call is sent. Arguments are thus checked, recorded
// and compared without the bytes. Nobody is told a mark, so that no text is taken for one.
type Blocks struct {
	Memory BlockMemory // set before use

	mu       sync.Mutex
	mark     string // begins the marks of this run; "": there are no blocks
	kept     []*KeptBlock
	byHandle map[string]int
	lost     map[string]bool // handles of blocks whose bytes are gone, unless they are in byHandle

	of    *Blocks // see Watch
	added func()
}

// BlockMemory counts what the blocks of a run take.
type BlockMemory interface {
	// KeepBlock counts a block with so many bytes, and base64 of them, until the run ends.
	KeepBlock(bytes int) error
	// HoldArguments counts arguments with the bytes of blocks, until ReleaseArguments.
	HoldArguments(bytes int) error
	ReleaseArguments(bytes int)
}

// BlockHandle begins the handle of a block, which is also its continuation token.
const BlockHandle = "oc1_b"

// A handle is BlockHandle and handleDigits digits. A mark has the same length, and looks like base64, so that a schema which asks for that
// accepts it: blockMark, random letters, and the number of the block.
const (
	handleDigits = 39
	handleLength = len(BlockHandle) + handleDigits
	blockMark    = "oc1bytes"
	markDigits   = 10
)

// KeepBlock keeps the bytes of a block that the call of ctx returns, and returns its JSON, for the result. Bytes must not change later. An
// error says that the run has no memory for them. Without a run, data is the bytes themselves, as base64.
func KeepBlock(ctx context.Context, b *Block) (value []byte, err error) {
	blocks, b := CallbacksOf(ctx).Blocks, scrubBlock(CallbacksOf(ctx).scrubber, b)
	if blocks == nil {
		return b.Whole(), nil
	}
	handle, err := blocks.Add(b)
	if err != nil {
		return nil, err
	}
	return b.JSON(`"` + handle + `"`), nil
}

// Add adds a block under a new handle. An error says that the run has no memory for it.
func (b *Blocks) Add(block *Block) (handle string, err error) {
	handle = newHandle()
	return handle, b.Restore(&KeptBlock{Handle: handle, Block: *block})
}

// JSON returns the object that stands for the block in a result. data is JSON that needs no escapes: a string, or null.
func (b *Block) JSON(data string) []byte {
	w := b.begin(len(data))
	w.B = append(w.B, data...)
	w.Close('}')
	return w.B
}

// Whole is JSON with the bytes as data. Base64 of them is written once, where it stands.
func (b *Block) Whole() []byte {
	w := b.begin(base64.StdEncoding.EncodedLen(len(b.Bytes)) + len(`""`))
	w.B = append(base64.StdEncoding.AppendEncode(append(w.B, '"'), b.Bytes), '"')
	w.Close('}')
	return w.B
}

// begin writes the object up to data, with room for so many bytes of it.
func (b *Block) begin(room int) *rawjson.Writer {
	w := &rawjson.Writer{B: make([]byte, 0, 128+len(b.URI)+len(b.MIME)+room)}
	w.Open('{')
	w.Text("type", b.Type)
	if b.URI != "" {
		w.Text("uri", b.URI)
	}
	w.Text("mimeType", b.MIMEType())
	w.Int("size", int64(len(b.Bytes)))
	w.Key("data")
	return w
}

// MIMEType returns MIME, or what stands for a type that is not known.
func (b *Block) MIMEType() string { return cmp.Or(b.MIME, "application/octet-stream") }

var handleSpace = new(big.Int).Exp(big.NewInt(10), big.NewInt(handleDigits), nil)

// newHandle returns a handle that cannot be guessed. Digits cost an agent fewer tokens than letters.
func newHandle() string {
	n, _ := rand.Int(rand.Reader, handleSpace) // never fails
	digits := n.String()
	return BlockHandle + strings.Repeat("0", handleDigits-len(digits)) + digits
}

// isHandle reports whether a text has the form of a handle.
func isHandle(text string) bool {
	return len(text) == handleLength && strings.HasPrefix(text, BlockHandle) && strings.Trim(text[len(BlockHandle):], "0123456789") == ""
}

// table returns the blocks that b stands for.
func (b *Blocks) table() *Blocks {
	if b.of != nil {
		return b.of
	}
	return b
}

// Watch returns the same blocks, and calls added before a block is added through them.
func (b *Blocks) Watch(added func()) *Blocks {
	if b == nil {
		return nil
	}
	return &Blocks{of: b.table(), added: added}
}

// Restore adds a block under the handle that it has had before.
func (b *Blocks) Restore(block *KeptBlock) error {
	if b.added != nil {
		b.added()
	}
	t := b.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byHandle[block.Handle]; known {
		return nil
	}
	if t.Memory != nil {
		if err := t.Memory.KeepBlock(len(block.Bytes)); err != nil {
			return err
		}
	}
	if t.byHandle == nil {
		t.mark, t.byHandle = blockMark+rand.Text(), map[string]int{}
	}
	t.byHandle[block.Handle] = len(t.kept)
	kept := *block
	kept.sum = sync.OnceValue(func() string { return Digest(kept.Bytes) })
	t.kept = append(t.kept, &kept)
	return nil
}

// Lose notes the handles in a value that the run has from an earlier one. Until the run has their blocks, a reference to the bytes is a
// fault.
func (b *Blocks) Lose(value []byte) {
	handles := HandlesIn(value)
	if len(handles) == 0 {
		return
	}
	t := b.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		t.lost = map[string]bool{}
	}
	for _, handle := range handles {
		t.lost[handle] = true
	}
}

// view returns the blocks so far; nil: there are none. They can be read without the lock, as blocks are only added.
func (b *Blocks) view() *Blocks {
	if b == nil {
		return nil
	}
	t := b.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mark == "" {
		return nil
	}
	return &Blocks{mark: t.mark, kept: t.kept}
}

// WithBytes returns a block of the run that has just these bytes; nil: there is none.
func (b *Blocks) WithBytes(content []byte) *Block {
	if t := b.view(); t != nil {
		for _, block := range t.kept {
			if bytes.Equal(block.Bytes, content) {
				return &block.Block
			}
		}
	}
	return nil
}

// Any reports whether there are blocks.
func (b *Blocks) Any() bool { return b.view() != nil }

// Find returns the block with this handle; nil: there is none.
func (b *Blocks) Find(handle string) *KeptBlock {
	t := b.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.byHandle[handle]; ok {
		return t.kept[n]
	}
	return nil
}

// Refer returns the mark that stands for the bytes of a block in arguments; "": the text is no handle of the run. gone: it is one
// whose bytes are not there (see Lose). A handle that the run has never had is a text like any other.
func (b *Blocks) Refer(text string) (mark string, gone bool) {
	if !isHandle(text) {
		return "", false
	}
	t := b.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.byHandle[text]
	if !ok {
		return "", t.lost[text]
	}
	number := strconv.Itoa(n)
	return t.mark + strings.Repeat("0", markDigits-len(number)) + number, false
}

// marked returns the block whose mark begins at i of text, and the mark's length; nil: there is none.
func (b *Blocks) marked(text []byte, i int) (*KeptBlock, int) {
	end := i + len(b.mark) + markDigits
	if end > len(text) {
		return nil, 0
	}
	n, err := strconv.Atoi(string(text[i+len(b.mark) : end]))
	if err != nil || n >= len(b.kept) {
		return nil, 0
	}
	return b.kept[n], end - i
}

// each calls f for the marks in text, in order.
func (b *Blocks) each(text []byte, f func(at, length int, block *KeptBlock)) {
	t := b.view()
	if t == nil {
		return
	}
	for at := 0; ; {
		next := bytes.Index(text[at:], []byte(t.mark))
		if next < 0 {
			return
		}
		at += next
		block, length := t.marked(text, at)
		if block == nil {
			at++
			continue
		}
		f(at, length, block)
		at += length
	}
}

// Marked returns the block whose mark an argument, a text without quotes, is; nil: it is none. It is for functions with Spec.TakesMarks.
func (b *Blocks) Marked(text string) (found *Block) {
	b.each([]byte(text), func(_, length int, block *KeptBlock) {
		if length == len(text) {
			found = &block.Block
		}
	})
	return found
}

// ExpandedLength returns the length of a text with base64 in place of the marks.
func (b *Blocks) ExpandedLength(text []byte) int {
	size := len(text)
	b.each(text, func(_, length int, block *KeptBlock) {
		size += base64.StdEncoding.EncodedLen(len(block.Bytes)) - length
	})
	return size
}

// Expand returns a JSON text with base64 in place of the marks. It returns text itself if there are none. Many short marks may stand for
// more bytes than there is memory: the caller compares ExpandedLength with a limit first.
func (b *Blocks) Expand(text []byte) []byte {
	out, done := []byte(nil), 0
	b.each(text, func(at, length int, block *KeptBlock) {
		if out == nil {
			out = make([]byte, 0, b.ExpandedLength(text))
		}
		out = base64.StdEncoding.AppendEncode(append(out, text[done:at]...), block.Bytes)
		done = at + length
	})
	if out == nil {
		return text
	}
	return append(out, text[done:]...)
}

// ExpandHeld is Expand with the memory counted until release is called; nil: nothing was counted.
func (b *Blocks) ExpandHeld(text []byte) (expanded []byte, release func(), err error) {
	more := b.ExpandedLength(text) - len(text)
	if more <= 0 { // base64 of a small block is as short as its mark
		return b.Expand(text), nil, nil
	}
	if memory := b.table().Memory; memory != nil {
		if err := memory.HoldArguments(more); err != nil {
			return nil, nil, err
		}
		release = func() { memory.ReleaseArguments(more) }
	}
	return b.Expand(text), release, nil
}
