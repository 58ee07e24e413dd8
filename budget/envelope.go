package budget

import (
	"slices"
	"unicode/utf8"
)

// Envelope is the budget of an answer and the text around its result. A nil Envelope allows every result.
type Envelope struct {
	Meter         *Meter
	Before, After []byte
	Number        int // index in After at which the answer's own number of tokens is inserted; 0: the answer does not contain it
	MaxRunes      int // maximum characters of the answer without that number; 0: unlimited
}

// Allows reports whether an answer with this result is within the budget.
func (e *Envelope) Allows(result []byte) bool {
	if e == nil {
		return true
	}
	if e.MaxRunes > 0 && utf8.RuneCount(e.Before)+utf8.RuneCount(result)+utf8.RuneCount(e.After) > e.MaxRunes {
		return false
	}
	if e.Meter.limit == 0 || e.Number == 0 {
		return e.Meter.Allows(e.Before, result, e.After)
	}
	if !e.Meter.Allows(e.Before, result, e.After) {
		return false
	}
	return e.Meter.SelfCount(slices.Concat(e.Before, result, e.After[:e.Number]), e.After[e.Number:]) <= e.Meter.limit
}

// limit returns the budget in tokens for messages; 0 if there is none.
func (e *Envelope) limit() int {
	if e == nil {
		return 0
	}
	return e.Meter.limit
}
