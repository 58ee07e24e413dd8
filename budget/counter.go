package budget

import (
	"math"

	"github.com/onecall-mcp/onecall/budget/bpe"
	"github.com/onecall-mcp/onecall/fault"
)

// encodingName is the only supported encoding.
const encodingName = "o200k_base"

// longestToken is the length in bytes of the longest token of o200k_base.
const longestToken = 128

// million is the value of a counter's factor that stands for 1. Integers avoid rounding errors: 10 tokens times 1.1 are 11, not 12.
const million = 1_000_000

// minFactor and maxFactor bound a counter's factor.
const minFactor, maxFactor = 0.001, 1000

// Counter counts tokens of a named encoding. It is safe for concurrent use. What a number between other characters costs must depend only
// on how many digits it has: [Meter.SelfCount] relies on it.
type Counter interface {
	// Count returns the exact number of tokens of text. If that is above limit, it may stop early and return any number above limit. A
	// negative limit means none.
	Count(text []byte, limit int) int

	// Estimate returns a cheap estimate, within a few percent, for numbers that no budget is charged with.
	Estimate(text []byte) int

	// Encoding returns the name of the encoding.
	Encoding() string
}

// NewCounter returns a counter for an encoding: "" or "o200k_base"; any other is bad_request. Counts are multiplied by factor and rounded
// up, for models whose vocabulary is not public. A factor of 0 means 1; any other is rounded to six decimals, and is bad_request below
// 0.001 or above 1,000. The vocabulary is loaded by the first count.
func NewCounter(encoding string, factor float64) (Counter, error) {
	if encoding != "" && encoding != encodingName {
		e := fault.New(fault.BadRequest, "The encoding %q is not known. Use %s.", encoding, encodingName)
		e.At, e.Available = "/encoding", []string{encodingName}
		return nil, e
	}
	if factor == 0 {
		factor = 1
	}
	if !(factor >= minFactor && factor <= maxFactor) { // refuses NaN, too
		e := fault.New(fault.BadRequest, "The token factor must be a number from %v to %v, not %v.", minFactor, maxFactor, factor)
		e.At = "/factor"
		return nil, e
	}
	return &o200k{factor: int(math.Round(factor * million))}, nil
}

// o200k is the counter of the encoding o200k_base.
type o200k struct{ factor int } // the factor in millionths

func (c *o200k) Encoding() string { return encodingName }

func (c *o200k) Count(text []byte, limit int) int {
	if limit < 0 || limit > math.MaxInt/million { // the product below would overflow
		limit = -1
	} else {
		limit = limit * million / c.factor // the largest unscaled count that is within limit when scaled
	}
	return c.multiply(bpe.Count(text, limit))
}

func (c *o200k) Estimate(text []byte) int { return c.multiply(bpe.Sample(text)) }

// bounds returns the minimum and maximum number of tokens of a text of n bytes.
func (c *o200k) bounds(n int) (minTokens, maxTokens int) {
	return c.multiply((n + longestToken - 1) / longestToken), c.multiply(n)
}

// maxBytes returns the length of the longest text that may have no more tokens.
func (c *o200k) maxBytes(tokens int) int {
	if tokens > math.MaxInt/million/longestToken { // the product below would overflow
		return 0
	}
	return tokens * million / c.factor * longestToken
}

func (c *o200k) multiply(tokens int) int {
	return (tokens*c.factor + million - 1) / million
}
