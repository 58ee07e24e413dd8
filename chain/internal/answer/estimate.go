package answer

import (
	"sync"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
)

// IntermediateTokens estimates the tokens of the results that are not returned.
func (f *Form) IntermediateTokens(r *facts.Run) int {
	if f.Call {
		return 0
	}
	n := len(r.Steps)
	if !r.Returned {
		n--
	}
	return f.estimate(n, func(i int) []byte { return r.Steps[i].Raw }, minSample)
}

// EstimateText estimates the tokens of a text from a small sample.
func (f *Form) EstimateText(text []byte) int {
	return f.estimate(1, func(int) []byte { return text }, minSample)
}

// EstimateAnswer estimates the tokens of an answer from a larger sample.
func (f *Form) EstimateAnswer(text []byte) int {
	return f.estimate(1, func(int) []byte { return text }, maxSample)
}

// An estimate counts the tokens of pieces that make up a quarter of the text, from minSample to maxSample bytes. That takes less time than
// a call. Several texts with fewer than guessBelow bytes in all, which may come in thousands, are only estimated by their size.
const (
	pieceBytes = 64
	minSample  = 2 * pieceBytes
	maxSample  = 16 * pieceBytes

	guessBelow = 2 * minSample
	tokenBytes = 3 // about, in short JSON
)

// samples is a pool of buffers for the pieces.
var samples = sync.Pool{New: func() any { return new([maxSample]byte) }}

// estimate estimates the tokens of n texts, taken as one, from pieces at even distances. A single text of at most minBytes bytes
// (minSample ≤ minBytes ≤ maxSample) is counted. Several texts with fewer than guessBelow bytes in all are estimated by their size.
func (f *Form) estimate(n int, text func(i int) []byte, minBytes int) int {
	size := 0
	for i := range n {
		size += len(text(i))
	}
	if size == 0 {
		return 0
	}
	if size < guessBelow && n > 1 {
		return max(1, size/tokenBytes)
	}
	sampleSize := min(max(size/4, minBytes), maxSample) / pieceBytes * pieceBytes
	buffer := samples.Get().(*[maxSample]byte)
	defer samples.Put(buffer)
	sample := appendSample(buffer[:0:sampleSize], n, text, max(0, size-sampleSize)/(sampleSize/pieceBytes-1))
	tokens := f.Meter.Estimate(sample)
	return int(float64(tokens) * float64(size) / float64(len(sample)))
}

// appendSample fills the capacity of dst with pieces of the texts that are gap bytes apart.
func appendSample(dst []byte, n int, text func(i int) []byte, gap int) []byte {
	skip, left := 0, pieceBytes // bytes until the next piece, and left in the current one
	for i := range n {
		for rest := text(i); len(dst) < cap(dst); {
			if skip >= len(rest) {
				skip -= len(rest)
				break
			}
			rest = rest[skip:]
			piece := rest[:min(left, len(rest), cap(dst)-len(dst))]
			dst, rest, skip, left = append(dst, piece...), rest[len(piece):], 0, left-len(piece)
			if left == 0 {
				skip, left = gap, pieceBytes
			}
		}
	}
	return dst
}
