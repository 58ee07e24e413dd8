package steps

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns the text that stands for bytes, and for the handle of their block, in recordings and comparisons.
func Digest(bytes []byte) string {
	sum := sha256.Sum256(bytes)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Digest is Digest of the block's bytes.
func (k *KeptBlock) Digest() string { return k.sum() }

// Digests returns a JSON text with the digest of the bytes in place of each mark and handle of the run, so that equal bytes are equal in
// every run. It returns text itself if there are none.
func (b *Blocks) Digests(text []byte) []byte {
	if b.view() == nil {
		return text
	}
	out, done := []byte(nil), 0
	replace := func(at, length int, block *KeptBlock) {
		out = append(append(out, text[done:at]...), block.Digest()...)
		done = at + length
	}
	b.each(text, replace)
	if done > 0 {
		text, out, done = append(out, text[done:]...), nil, 0
	}
	b.eachHandle(text, replace)
	if done > 0 {
		text = append(out, text[done:]...)
	}
	return text
}

// eachHandle calls f for the handles of the run in text, in order.
func (b *Blocks) eachHandle(text []byte, f func(at, length int, block *KeptBlock)) {
	if b.view() == nil {
		return
	}
	for at := 0; ; {
		next := bytes.Index(text[at:], []byte(BlockHandle))
		if next < 0 || at+next+handleLength > len(text) {
			return
		}
		at += next
		block := b.Find(string(text[at : at+handleLength]))
		if block == nil {
			at += len(BlockHandle)
			continue
		}
		f(at, handleLength, block)
		at += handleLength
	}
}

// Within returns the blocks of the run whose handles stand in a JSON text, each once.
func (b *Blocks) Within(text []byte) (list []*KeptBlock) {
	seen := map[*KeptBlock]bool{}
	b.eachHandle(text, func(_, _ int, block *KeptBlock) {
		if !seen[block] {
			seen[block] = true
			list = append(list, block)
		}
	})
	return list
}
