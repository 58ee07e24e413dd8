package bpe

import "sync"

// Merging: a piece begins as single bytes. Of all neighbors whose combined bytes are a token, those of the lowest rank, the leftmost
// among equals, are joined, until no neighbors form a token. The remaining segments are the tokens of the piece.
//
// Three facts, true for any ranks, make this fast without changing a count:
//
//  1. If no merge crosses a cut, the text on the left and on the right of it merge as if each were alone. So a text may be cut
//     beforehand between two bytes that no token contains side by side.
//  2. Likewise, any run of the tokens of a text are the tokens of that run's bytes.
//  3. Conversely, consecutive tokens are the tokens of their bytes if every two neighbors are the tokens of theirs. Suppose there were
//     a first merge across one of the cuts. It would join what the two tokens beside the cut have grown to. Each grows by the same
//     merges in the same order wherever it stands, and the merges of the two interleave by rank alone, so the same merge would have
//     been made with only these two.

const (
	maxShort = 128  // bytes of the longest text whose lowest rank is found by a linear scan
	window   = 4096 // bytes of a longer text that are merged at once
	margin   = 512  // bytes at the end of a window whose tokens may depend on what follows
)

// count returns the number of tokens of a piece. If that is above spare, it may stop early and return any number above spare.
func (v *vocabulary) count(piece []byte, spare int) int {
	switch {
	case len(piece) == 1:
		return 1
	case len(piece) <= maxTokenBytes && v.rank(piece) != notToken:
		return 1
	case minTokens(len(piece)) > spare:
		return spare + 1
	}
	n := 0
	for from, to := 0, 1; from < len(piece) && n <= spare; to++ {
		if to < len(piece) && v.pairs[pair(piece, to)] != neverAdjacent {
			continue
		}
		if to-from <= maxShort {
			n += v.mergeShort(piece[from:to])
		} else {
			n += v.mergeLong(piece[from:to], spare-n, window, margin)
		}
		from = to
	}
	return n
}

// mergeShort returns the number of tokens of at most maxShort bytes.
func (v *vocabulary) mergeShort(text []byte) int {
	if len(text) == 1 {
		return 1
	}
	var start [maxShort + 1]uint8  // start of each segment; one more for the end
	var ranks [maxShort + 1]uint32 // rank of each segment joined with the next
	n := len(text)
	for i := range n + 1 {
		start[i] = uint8(i)
	}
	for i := 1; i < n; i++ {
		ranks[i-1] = v.pairs[pair(text, i)]
	}
	for n > 1 {
		lowest, at := uint32(neverAdjacent), 0
		for i, r := range ranks[:n-1] {
			if r < lowest {
				lowest, at = r, i
			}
		}
		if lowest == neverAdjacent {
			break
		}
		copy(start[at+1:n], start[at+2:n+1])
		copy(ranks[at+1:n-1], ranks[at+2:n])
		n--
		if at+1 < n {
			ranks[at] = v.rank(text[start[at]:start[at+2]])
		}
		if at > 0 {
			ranks[at-1] = v.rank(text[start[at-1]:start[at+1]])
		}
	}
	return n
}

// mergeLong returns the number of tokens of a text of any length, one window at a time. It may stop early above spare. From each window
// of size bytes it takes the tokens that end before the last margin bytes; the next window begins after them. By facts 2 and 3 this is
// correct if the next window begins with the token that the previous one had there. Otherwise, which takes a chain of dependent merges
// through the whole margin, it starts over with windows of twice the size.
func (v *vocabulary) mergeLong(text []byte, spare, size, margin int) int {
	m := mergers.Get().(*merger)
	defer m.release()
	n, at := 0, 0
	first := 0 // length of the token that must begin the window; 0: any
	for n <= spare {
		end := min(at+size, len(text))
		m.merge(v, text[at:end])
		aligned := first == 0 || m.next(0) == first
		if aligned && end == len(text) {
			return n + m.remaining
		}
		complete, cut := 0, 0
		for aligned && m.next(cut) <= size-margin {
			cut = m.next(cut)
			complete++
		}
		if complete == 0 {
			n, at, first = 0, 0, 0
			size *= 2
			continue
		}
		n, at, first = n+complete, at+cut, m.next(cut)-cut
	}
	return n
}

// merger merges with a heap: O(n log n) for n bytes.
type merger struct {
	segments  []segment // the segments by the byte at which they begin; one more at the end
	heap      []uint64  // possible merges as rank and position, lowest first; some are obsolete
	remaining int       // number of segments
}

// segment is a run of bytes that have been merged.
type segment struct {
	previous, next int32  // start of the neighbors
	rank           uint32 // the rank of the segment joined with the next
}

var mergers = sync.Pool{New: func() any { return new(merger) }}

// release returns m to the pool unless it has grown.
func (m *merger) release() {
	if cap(m.segments) <= window+1 {
		mergers.Put(m)
	}
}

// next returns the end of the segment that begins at i.
func (m *merger) next(i int) int { return int(m.segments[i].next) }

// merge reduces text to its tokens.
func (m *merger) merge(v *vocabulary, text []byte) {
	n := len(text)
	if cap(m.segments) <= n {
		m.segments = make([]segment, max(n, window)+1)
		m.heap = make([]uint64, 0, 3*max(n, window)) // one for each byte, two for each merge
	}
	m.segments, m.heap, m.remaining = m.segments[:n+1], m.heap[:0], n
	for i := range m.segments {
		m.segments[i] = segment{int32(i - 1), int32(i + 1), notToken}
	}
	for i := 1; i < n; i++ {
		m.push(i-1, v.pairs[pair(text, i)])
	}
	for len(m.heap) > 0 {
		rank, at := m.pop()
		p := &m.segments[at]
		if p.rank != rank {
			continue
		}
		removed := &m.segments[p.next]
		removed.rank = notToken
		p.next = removed.next
		m.segments[p.next].previous = int32(at)
		m.remaining--
		m.updateRank(v, text, at)
		if at > 0 {
			m.updateRank(v, text, int(p.previous))
		}
	}
}

// updateRank sets the rank of the segment at i joined with the next.
func (m *merger) updateRank(v *vocabulary, text []byte, i int) {
	m.segments[i].rank = notToken
	if next := m.next(i); next < len(text) {
		m.push(i, v.rank(text[i:m.next(next)]))
	}
}

// push adds the merge at i to the heap if it has a rank.
func (m *merger) push(i int, rank uint32) {
	if rank >= neverAdjacent {
		return
	}
	m.segments[i].rank = rank
	m.heap = append(m.heap, 0)
	m.siftUp(len(m.heap)-1, uint64(rank)<<32|uint64(i))
}

// siftUp puts a merge into the free slot i of the heap, or above it as far as needed.
func (m *merger) siftUp(i int, merge uint64) {
	for i > 0 {
		up := (i - 1) / 2
		if m.heap[up] <= merge {
			break
		}
		m.heap[i] = m.heap[up]
		i = up
	}
	m.heap[i] = merge
}

// pop removes the first merge from the heap. The free slot sinks to the bottom, and the last merge rises from there. It usually belongs
// near the bottom, so this takes half the time of sinking it from the top.
func (m *merger) pop() (rank uint32, at int) {
	h := m.heap
	first, end := h[0], len(h)-1
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		right := 0 // added below, which avoids a branch that cannot be predicted
		if h[down+1] < h[down] {
			right = 1
		}
		down += right
		h[i] = h[down]
		i = down
	}
	last := h[end]
	m.heap = h[:end]
	if i < end {
		m.siftUp(i, last)
	}
	return uint32(first >> 32), int(uint32(first))
}
