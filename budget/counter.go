package budget

import (
	"math"

	"github.com/onecall-mcp/onecall/budget/bpe"
	"github.com/onecall-mcp/onecall/fault"
)

// encodingName is the one encoding that there is.
const encodingName = "o200k_base"

// longestToken is the length in bytes of the longest token of o200k_base.
const longestToken = 128

// millionth is the unit of a counter's factor: whole numbers, so that 10 tokens by 1.1 are 11 and not 12.
const millionth = 1_000_000

// leastFactor and mostFactor bound a counter's factor.
const leastFactor, mostFactor = 0.001, 1000

// Counter counts tokens with a named encoding. It is safe for concurrent use. Other implementations than those of
// NewCounter are welcome where a number that stands between other characters costs by the count of its digits alone.
type Counter interface {
	// Count is the exact number of tokens of text. It stops as soon as the number is above limit, and returns any number
	// above it then; a limit below 0 means none.
	Count(text []byte, limit int) int

	// Estimate is a cheap guess, within a few percent, for what is never charged.
	Estimate(text []byte) int

	// Encoding is the name of the encoding.
	Encoding() string
}

// NewCounter makes a counter for an encoding: "" or "o200k_base", any other is bad_request. The counts are multiplied by
// factor and rounded up, for models whose vocabulary is not public: 0 means 1; at least 0.001 and at most 1,000, to the
// sixth decimal, else bad_request. The vocabulary is loaded with the first count.
func NewCounter(encoding string, factor float64) (Counter, error) {
	if encoding != "" && encoding != encodingName {
		e := fault.New(fault.BadRequest, "The encoding %q is not known. Use %s.", encoding, encodingName)
		e.At, e.Available = "/encoding", []string{encodingName}
		return nil, e
	}
	if factor == 0 {
		factor = 1
	}
	if !(factor >= leastFactor && factor <= mostFactor) { // so written, NaN is refused too
		e := fault.New(fault.BadRequest, "The token factor must be a number from %v to %v, not %v.", leastFactor, mostFactor, factor)
		e.At = "/factor"
		return nil, e
	}
	return &o200k{factor: int(math.Round(factor * millionth))}, nil
}

// o200k is the counter of the encoding o200k_base.
type o200k struct{ factor int } // in millionths

func (c *o200k) Encoding() string { return encodingName }

func (c *o200k) Count(text []byte, limit int) int {
	if limit < 0 || limit > math.MaxInt/millionth {
		limit = -1
	} else {
		limit = limit * millionth / c.factor // the largest plain count that is not above limit when multiplied
	}
	return c.multiply(bpe.Count(text, limit))
}

func (c *o200k) Estimate(text []byte) int { return c.multiply(bpe.Sample(text)) }

// bounds are the least and the most tokens that a text of n bytes can have.
func (c *o200k) bounds(n int) (least, most int) {
	return c.multiply((n + longestToken - 1) / longestToken), c.multiply(n)
}

func (c *o200k) multiply(tokens int) int {
	return (tokens*c.factor + millionth - 1) / millionth
}
