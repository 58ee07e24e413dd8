package budget

import (
	"strconv"
	"sync"
)

// MinTokens is the minimum of maxTotalTokens: below it not even a probe would fit.
const MinTokens = 150

// MinTokensFor is MinTokens for a counter: a factor above 1 makes every answer more expensive.
func MinTokensFor(c Counter) int {
	if scaled, ok := c.(interface{ multiply(int) int }); ok {
		return max(MinTokens, scaled.multiply(MinTokens))
	}
	return MinTokens
}

// Meter has the budget of one answer and is the only place that spends it. It has no other state and is safe for concurrent use.
type Meter struct {
	counter Counter
	limit   int
}

// NewMeter returns a meter for an answer of at most limit tokens; 0 or less means no limit.
func NewMeter(c Counter, limit int) *Meter { return &Meter{counter: c, limit: max(limit, 0)} }

// Limit returns the budget in tokens, 0 if there is none.
func (m *Meter) Limit() int { return m.limit }

// MaxBytes returns the length of the longest text that may be within the limit; 0: any may be.
func (m *Meter) MaxBytes() int {
	if b, ok := m.counter.(interface{ maxBytes(int) int }); ok && m.limit > 0 {
		return b.maxBytes(m.limit)
	}
	return 0
}

// Count returns the exact number of tokens of text.
func (m *Meter) Count(text []byte) int { return m.counter.Count(text, -1) }

// Estimate returns a cheap estimate of the tokens of text, for numbers that are not charged.
func (m *Meter) Estimate(text []byte) int { return m.counter.Estimate(text) }

// Allows reports whether the concatenation of the pieces is within the limit. If its length alone decides, it is
// not tokenized, otherwise only up to the limit.
func (m *Meter) Allows(pieces ...[]byte) bool {
	if m.limit == 0 {
		return true
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if b, ok := m.counter.(interface{ bounds(int) (int, int) }); ok {
		switch minTokens, maxTokens := b.bounds(size); {
		case maxTokens <= m.limit:
			return true
		case minTokens > m.limit:
			return false
		}
	}
	return m.countJoined(m.limit, pieces...) <= m.limit
}

// maxDigits is the number of digits of the largest int.
const maxDigits = 19

// SelfCount returns the number n for which before, n in decimal, and after cost exactly n tokens together: an answer that contains its
// own size. Before must not end, and after must not begin, with a digit or another numeral.
func (m *Meter) SelfCount(before, after []byte) int {
	const placeholder = "1234567890123456789"
	// What a number costs depends only on how many digits it has. Guess how many, and count again while the guess is wrong. More digits
	// never cost less, so the loop ends.
	digits := len(strconv.Itoa((len(before) + len(after)) / 4))
	for n := 0; ; {
		n = m.countJoined(-1, before, []byte(placeholder[:digits]), after)
		needed := min(len(strconv.Itoa(n)), maxDigits)
		if needed == digits {
			return n
		}
		digits = needed
	}
}

// joinedBuffers pools the buffers in which pieces are joined. Buffers larger than maxPooled are left to the garbage collector.
var joinedBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 1 << 20

// countJoined counts the pieces as one text, since tokens may span pieces.
func (m *Meter) countJoined(limit int, pieces ...[]byte) int {
	if len(pieces) == 1 {
		return m.counter.Count(pieces[0], limit)
	}
	buffer := joinedBuffers.Get().(*[]byte)
	joined := (*buffer)[:0]
	for _, p := range pieces {
		joined = append(joined, p...)
	}
	n := m.counter.Count(joined, limit)
	if cap(joined) <= maxPooled {
		*buffer = joined
		joinedBuffers.Put(buffer)
	}
	return n
}
