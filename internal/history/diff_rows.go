package history

import (
	"cmp"
	"fmt"
	"strings"
)

// DiffRow is a pair of calls, or several equal pairs of one step's elements, as a table shows it.
type DiffRow struct {
	Pair
	At    string
	Count int // how many pairs it stands for
}

// Rows returns the pairs of a comparison. Adjacent pairs of one step's elements are one row if both sides' calls are equal.
func (d *Diff) Rows() (rows []DiffRow) {
	for _, p := range d.Calls {
		side := cmp.Or(p.A, p.B)
		step, _, isElement := strings.Cut(side.At, "[")
		if n := len(rows); isElement && n > 0 && len(p.Differs) == 0 && p.A != nil && p.B != nil {
			if last := &rows[n-1]; last.sameStep(&p, step) {
				last.At = step + "[*]"
				last.Count++
				last.A, last.B = addSideCalls(last.A, p.A), addSideCalls(last.B, p.B)
				continue
			}
		}
		rows = append(rows, DiffRow{Pair: p, At: side.At, Count: 1})
	}
	return rows
}

func (r *DiffRow) sameStep(p *Pair, step string) bool {
	return strings.HasPrefix(r.At, step+"[") && r.Function == p.Function && len(r.Differs) == 0 && r.A != nil && r.B != nil &&
		r.A.Status == p.A.Status && r.A.Outcome == p.A.Outcome
}

// addSideCalls returns sum with the time, the bytes and the tokens of another call added.
func addSideCalls(sum, s *SideCall) *SideCall {
	total := *sum
	total.Millis, total.Bytes, total.Tokens = total.Millis+s.Millis, total.Bytes+s.Bytes, total.Tokens+s.Tokens
	return &total
}

// Mark is ~ if the calls differ, - if only A made the call, + if only B did, and "" if they are equal.
func (r *DiffRow) Mark() string {
	switch {
	case r.B == nil:
		return "-"
	case r.A == nil:
		return "+"
	case len(r.Differs) > 0:
		return "~"
	}
	return ""
}

// Place is where the calls stand: in A and in B, if that differs.
func (r *DiffRow) Place() string {
	if r.A != nil && r.B != nil && r.A.At != r.B.At && r.Count == 1 {
		return r.A.At + " → " + r.B.At
	}
	return r.At
}

// Name is the function of the calls, with what they are and how many.
func (r *DiffRow) Name() string {
	name := r.Function
	if cmp.Or(r.A, r.B).Undoes {
		name = "undo: " + name
	}
	if r.Count > 1 {
		name += fmt.Sprintf(" ×%d", r.Count)
	}
	return name
}

// Text is the outcome or the status of a call, with its code.
func (s *SideCall) Text() string {
	text := cmp.Or(string(s.Outcome), s.Status)
	if s.Code != "" {
		text += " (" + string(s.Code) + ")"
	}
	return text
}
