package budget

import (
	"slices"
	"unicode/utf8"
)

// Envelope is the budget of an answer, the text around its result, and how that is written. A nil Envelope, or one without a Meter, allows
// every result.
type Envelope struct {
	Meter         *Meter
	Before, After []byte
	Number        int // index in After at which the answer's own number of tokens is inserted; 0: the answer does not contain it
	MaxRunes      int // maximum characters of the answer without that number; 0: unlimited

	// Write returns a value as the answer shows it, within a page as JSON, and the text that its preview shows; nil: that of the value. If
	// Write is nil, values are shown as they are.
	Write func(value []byte, within bool) (written, text []byte)
}

// write returns a value as the answer shows it, and the text of its preview.
func (e *Envelope) write(value []byte) (written, text []byte) {
	if e == nil || e.Write == nil {
		return value, nil
	}
	return e.Write(value, false)
}

// ofJSON is the envelope of a result that no format holds.
func (e *Envelope) ofJSON() *Envelope {
	if e == nil || e.Write == nil {
		return e
	}
	asIs := *e
	asIs.Write = nil
	return &asIs
}

// Allows reports whether an answer with this result is within the budget.
func (e *Envelope) Allows(result []byte) bool {
	if e == nil || e.Meter == nil {
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
	if e == nil || e.Meter == nil {
		return 0
	}
	return e.Meter.limit
}
