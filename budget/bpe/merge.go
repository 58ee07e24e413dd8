package bpe

import "sync"

// Merging: a piece begins as single bytes; of all neighbours whose bytes together are a token, those of the lowest rank,
// the leftmost of equals, become one, until no neighbours are a token. What is left are the tokens of the piece.
//
// Three facts, true for any ranks whatever, make this fast without changing a count:
//
//  1. Where no merge crosses a cut, what is left of it and what is right of it merge as if each were alone. So a text may be
//     cut beforehand between two bytes that no token holds side by side.
//  2. So, too, any run of the tokens of a text are the tokens of that run's bytes.
//  3. Conversely, tokens in a row are the tokens of their bytes if every two neighbours are the tokens of theirs. Were there
//     a first merge across one of the cuts, it would join what the two tokens beside the cut have grown to. Each grows by the
//     same merges in the same order wherever it stands, and these of the two alternate by rank alone: so with just the two
//     the same merge would have been made.

const (
	short  = 128  // up to so many bytes the lowest rank is found by looking at all
	window = 4096 // of more bytes so many are merged at once
	margin = 512  // bytes at the end of a window whose tokens are not trusted: what follows may change them
)

// count returns the number of tokens of a piece; above spare it may stop, and return any number above spare.
func (v *vocabulary) count(piece []byte, spare int) int {
	switch {
	case len(piece) == 1:
		return 1
	case len(piece) <= longest && v.rank(piece) != absent:
		return 1
	case fewest(len(piece)) > spare:
		return spare + 1
	}
	n := 0
	for from, to := 0, 1; from < len(piece) && n <= spare; to++ {
		if to < len(piece) && v.pairs[pair(piece, to)] != apart {
			continue
		}
		if to-from <= short {
			n += v.mergeShort(piece[from:to])
		} else {
			n += v.mergeLong(piece[from:to], spare-n, window, margin)
		}
		from = to
	}
	return n
}

// mergeShort returns the number of tokens of at most short bytes.
func (v *vocabulary) mergeShort(text []byte) int {
	if len(text) == 1 {
		return 1
	}
	var start [short + 1]uint8  // where a part begins; the part behind the last begins at the end
	var ranks [short + 1]uint32 // of a part together with the next
	n := len(text)
	for i := range n + 1 {
		start[i] = uint8(i)
	}
	for i := 1; i < n; i++ {
		ranks[i-1] = v.pairs[pair(text, i)]
	}
	for n > 1 {
		lowest, at := uint32(apart), 0
		for i, r := range ranks[:n-1] {
			if r < lowest {
				lowest, at = r, i
			}
		}
		if lowest == apart {
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

// mergeLong returns the number of tokens of a text of any length, window by window; above spare it may stop. Of each
// window of size bytes it keeps the tokens that end before the last margin bytes, and the next window begins behind them.
// By facts 2 and 3 that is right if the next window begins with the token that the former had there. If it does not, which
// takes a chain of merges through the whole margin, each of which hangs on the next, all is done again with wider windows.
func (v *vocabulary) mergeLong(text []byte, spare, size, margin int) int {
	m := mergers.Get().(*merger)
	defer m.release()
	n, at := 0, 0
	first := 0 // the length of the token that must begin the window; 0 for any
	for n <= spare {
		end := min(at+size, len(text))
		m.merge(v, text[at:end])
		fits := first == 0 || m.next(0) == first
		if fits && end == len(text) {
			return n + m.left
		}
		kept, cut := 0, 0
		for fits && m.next(cut) <= size-margin {
			cut = m.next(cut)
			kept++
		}
		if kept == 0 {
			n, at, first = 0, 0, 0
			size *= 2
			continue
		}
		n, at, first = n+kept, at+cut, m.next(cut)-cut
	}
	return n
}

// merger merges with a heap: O(n log n) for n bytes.
type merger struct {
	parts []part   // by the byte at which they begin; one more at the end
	heap  []uint64 // merges to come: rank and place, the lowest first; some have become void
	left  int      // parts that are left
}

// part is some bytes of the text that have become one.
type part struct {
	previous, next int32  // where the neighbours begin
	rank           uint32 // of the part together with the next
}

var mergers = sync.Pool{New: func() any { return new(merger) }}

// release gives m back for use by others, unless it has grown.
func (m *merger) release() {
	if cap(m.parts) <= window+1 {
		mergers.Put(m)
	}
}

// next returns the end of the part that begins at i.
func (m *merger) next(i int) int { return int(m.parts[i].next) }

// merge leaves in m the tokens of text.
func (m *merger) merge(v *vocabulary, text []byte) {
	n := len(text)
	if cap(m.parts) <= n {
		m.parts = make([]part, max(n, window)+1)
		m.heap = make([]uint64, 0, 3*max(n, window)) // one for each byte, two for each merge
	}
	m.parts, m.heap, m.left = m.parts[:n+1], m.heap[:0], n
	for i := range m.parts {
		m.parts[i] = part{int32(i - 1), int32(i + 1), absent}
	}
	for i := 1; i < n; i++ {
		m.offer(i-1, v.pairs[pair(text, i)])
	}
	for len(m.heap) > 0 {
		rank, at := m.take()
		p := &m.parts[at]
		if p.rank != rank {
			continue
		}
		gone := &m.parts[p.next]
		gone.rank = absent
		p.next = gone.next
		m.parts[p.next].previous = int32(at)
		m.left--
		m.look(v, text, at)
		if at > 0 {
			m.look(v, text, int(p.previous))
		}
	}
}

// look notes the rank of the part at i together with the next.
func (m *merger) look(v *vocabulary, text []byte, i int) {
	m.parts[i].rank = absent
	if next := m.next(i); next < len(text) {
		m.offer(i, v.rank(text[i:m.next(next)]))
	}
}

// offer puts the merge at i on the heap, if its rank is one.
func (m *merger) offer(i int, rank uint32) {
	if rank >= apart {
		return
	}
	m.parts[i].rank = rank
	m.heap = append(m.heap, 0)
	m.rise(len(m.heap)-1, uint64(rank)<<32|uint64(i))
}

// rise puts a merge into the free place i of the heap, or as far above it as it belongs.
func (m *merger) rise(i int, merge uint64) {
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

// take removes the first merge from the heap. The free place sinks to the bottom, and the last merge rises from there: it
// mostly belongs low, so that this takes half the time of sinking it from the top.
func (m *merger) take() (rank uint32, at int) {
	h := m.heap
	first, end := h[0], len(h)-1
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		right := 0 // added below, so that no branch is to be guessed
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
		m.rise(i, last)
	}
	return uint32(first >> 32), int(uint32(first))
}
