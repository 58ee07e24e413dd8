package budget

import (
	"slices"
	"unicode/utf8"
)

// Room is what an answer has for a result: its budget, and the text that will stand around the result. A nil Room has room for
// every result.
type Room struct {
	Meter         *Meter
	Before, After []byte
	Number        int // where in After the answer's own number of tokens will stand; 0: it does not tell the number
	MaxRunes      int // characters of the whole answer, without that number; 0: any
}

// Fits reports whether an answer with this result is within the budget.
func (r *Room) Fits(result []byte) bool {
	if r == nil {
		return true
	}
	if r.MaxRunes > 0 && utf8.RuneCount(r.Before)+utf8.RuneCount(result)+utf8.RuneCount(r.After) > r.MaxRunes {
		return false
	}
	if r.Meter.limit == 0 || r.Number == 0 {
		return r.Meter.Fits(r.Before, result, r.After)
	}
	if !r.Meter.Fits(r.Before, result, r.After) {
		return false
	}
	return r.Meter.Settle(slices.Concat(r.Before, result, r.After[:r.Number]), r.After[r.Number:]) <= r.Meter.limit
}

// limit is the budget in tokens, for what messages tell; 0 where there is none.
func (r *Room) limit() int {
	if r == nil {
		return 0
	}
	return r.Meter.limit
}
