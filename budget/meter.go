package budget

import (
	"strconv"
	"sync"
)

// LeastTokens is the least maxTotalTokens: below it not even a probe in its envelope would fit.
const LeastTokens = 150

// Least is LeastTokens as a counter counts: a factor above 1 makes every answer dearer.
func Least(c Counter) int {
	if scaled, ok := c.(interface{ multiply(int) int }); ok {
		return max(LeastTokens, scaled.multiply(LeastTokens))
	}
	return LeastTokens
}

// Meter is the only place that spends: it knows the budget of one answer. It holds no state but that budget and is safe
// for concurrent use.
type Meter struct {
	counter Counter
	limit   int
}

// NewMeter makes a meter for an answer of at most limit tokens; 0 (or less) means no limit.
func NewMeter(c Counter, limit int) *Meter { return &Meter{counter: c, limit: max(limit, 0)} }

// Limit is the budget in tokens, 0 where there is none.
func (m *Meter) Limit() int { return m.limit }

// Count is the exact number of tokens of text.
func (m *Meter) Count(text []byte) int { return m.counter.Count(text, -1) }

// Estimate is a cheap guess at the tokens of text, for what is not charged.
func (m *Meter) Estimate(text []byte) int { return m.counter.Estimate(text) }

// Fits reports whether the parts, one after the other, cost at most the limit, counted as the one text that they make. A
// text so short or so long that its bytes alone decide is not tokenized, any other only as far as the limit.
func (m *Meter) Fits(parts ...[]byte) bool {
	if m.limit == 0 {
		return true
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if b, ok := m.counter.(interface{ bounds(int) (int, int) }); ok {
		switch least, most := b.bounds(size); {
		case most <= m.limit:
			return true
		case least > m.limit:
			return false
		}
	}
	return m.countJoined(m.limit, parts...) <= m.limit
}

// maxDigits is the number of digits of the largest int.
const maxDigits = 19

// Settle gives the number n for which before, n in decimal and after cost exactly n tokens together: the answer that
// tells its own size. Before must not end, nor after begin, with a digit or another numeral.
func (m *Meter) Settle(before, after []byte) int {
	const placeholder = "1234567890123456789"
	// What a number costs depends on how many digits it has and not on which: guess how many, and count again while the
	// guess is wrong. More digits never cost less, so this ends.
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

// joinedBuffers holds the buffers in which parts are joined to be counted; larger ones than maxPooled are left to the
// garbage collector.
var joinedBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 1 << 20

// countJoined counts the parts as one text: tokens may reach across the joints.
func (m *Meter) countJoined(limit int, parts ...[]byte) int {
	if len(parts) == 1 {
		return m.counter.Count(parts[0], limit)
	}
	buffer := joinedBuffers.Get().(*[]byte)
	joined := (*buffer)[:0]
	for _, p := range parts {
		joined = append(joined, p...)
	}
	n := m.counter.Count(joined, limit)
	if cap(joined) <= maxPooled {
		*buffer = joined
		joinedBuffers.Put(buffer)
	}
	return n
}
