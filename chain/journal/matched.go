package journal

import (
	"slices"

	"github.com/onecall-mcp/onecall/fault"
)

// take takes note that the chain has a call at a place. r.mu is held.
func (r *Run) take(c *PastCall, place string) {
	if c == nil || r.isTaken(c) {
		return
	}
	r.taken[c] = place
	if !c.Writes() || c.Undoes != 0 {
		return
	}
	for i := range len(place) {
		if place[i] != '.' {
			continue
		}
		if r.within == nil {
			r.within = map[string][]*PastCall{}
		}
		r.within[place[:i+1]] = append(r.within[place[:i+1]], c)
	}
}

func (r *Run) isTaken(c *PastCall) bool {
	_, taken := r.taken[c]
	return taken
}

// Writes are the calls that write, as they stand: of the inline chain whose calls have places that begin so; "": all of the run, whether the chain
// as it is now makes them or not.
func (r *Run) Writes(begins string) []PastCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.past.writes
	if begins != "" {
		list = r.within[begins]
	}
	calls := make([]PastCall, len(list))
	for i, c := range list {
		calls[i] = *c
	}
	return calls
}

// Call is a call as it stands by now, and where the chain has it; "": nowhere.
func (r *Run) Call(c *PastCall) (now PastCall, place string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.past.call(mac(c.MAC), c.Ordinal)
	return *known, r.taken[known]
}

// WroteAfter is Past.WroteAfter while the run goes on.
func (r *Run) WroteAfter(c *PastCall) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.wroteAfter(c)
}

// Unmatched are the calls that wrote, or may have, before the run was resumed, and that the resumed chain has not made so far.
func (r *Run) Unmatched() (list []*PastCall) {
	if r.past == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.past.writes {
		if !r.matches(c) {
			list = append(list, c)
		}
	}
	return list
}

// Unreached are the calls that wrote, or may have, before the run was resumed, and that the resumed chain has neither made nor taken
// so far, whatever was said of them.
func (r *Run) Unreached() (list []*PastCall) {
	if r.past == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.past.writes {
		if c.Undoes == 0 && !r.isTaken(c) && slices.Contains([]fault.Outcome{fault.Applied, fault.SentUnknown, fault.Undone}, c.Outcome) {
			list = append(list, c)
		}
	}
	return list
}

// Equals are the calls of the same function with the same arguments that the run has made.
func (r *Run) Equals(c *Call) []*PastCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.past.calls[c.mac]), func(p *PastCall) bool { return p == nil })
}

// Matched reports whether Unmatched gives none. It looks again only at what it has not found matched before: what is matched stays so.
func (r *Run) Matched() bool {
	if r.past == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.matched < len(r.past.writes) && r.matches(r.past.writes[r.matched]) {
		r.matched++
	}
	return r.matched == len(r.past.writes)
}

func (r *Run) matches(c *PastCall) bool {
	if c.Undoes != 0 && c.Outcome == fault.Applied {
		return true // no call of the chain: it has taken one back, which is made again
	}
	return c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown || c.Assumed || r.isTaken(c)
}

// Rehearse gives a run that knows what this one knows, and writes nothing: by it a chain can be followed as far as its calls were
// made.
func (r *Run) Rehearse() *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	past, taken := r.past.copy(), map[*PastCall]string{}
	for c, place := range r.taken { // what this run has made is a call of its chain, whether the rehearsal comes as far or not
		if c != nil {
			taken[past.call(mac(c.MAC), c.Ordinal)] = place
		}
	}
	return &Run{j: r.j, canonical: r.canonical, began: r.began, past: past, row: r.row, broken: errRehearsal, taken: taken}
}
