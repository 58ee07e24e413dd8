package journal

import (
	"slices"

	"github.com/onecall-mcp/onecall/fault"
)

// match records that the chain has a call at a path. If the call writes and undoes no other, match adds it to writesByChain for each inline
// chain around it: the beginnings of its path that end with a dot. r.mu is held. c may be nil.
func (r *Run) match(c *PastCall, stepPath string) {
	if c == nil || r.isMatched(c) {
		return
	}
	r.matchedAt[c] = stepPath
	if !c.Writes() || c.Undoes != 0 {
		return
	}
	for i := range len(stepPath) {
		if stepPath[i] != '.' {
			continue
		}
		if r.writesByChain == nil {
			r.writesByChain = map[string][]*PastCall{}
		}
		r.writesByChain[stepPath[:i+1]] = append(r.writesByChain[stepPath[:i+1]], c)
	}
}

func (r *Run) isMatched(c *PastCall) bool {
	_, ok := r.matchedAt[c]
	return ok
}

// Writes returns the calls that write, in their current state. If prefix is "", it returns all of them, whether the chain still contains
// them or not. Otherwise prefix is the path of an inline chain with a dot, such as "3[7].", and Writes returns the calls in that chain.
func (r *Run) Writes(prefix string) []PastCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.past.writes
	if prefix != "" {
		list = r.writesByChain[prefix]
	}
	calls := make([]PastCall, len(list))
	for i, c := range list {
		calls[i] = *c
	}
	return calls
}

// Call returns the current state of a call, and its path in the chain; "": the chain does not contain it.
func (r *Run) Call(c *PastCall) (now PastCall, stepPath string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.past.call(mac(c.MAC), c.Ordinal)
	return *known, r.matchedAt[known]
}

// WroteAfter reports whether a call that writes, and that began after c, was applied.
func (r *Run) WroteAfter(c *PastCall) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.wroteAfter(c)
}

// Unmatched returns the calls that wrote, or may have, before the run was resumed, and that the chain has neither made nor reused so far.
// It leaves out calls whose outcome the caller assumed, and undos that were applied.
func (r *Run) Unmatched() (list []*PastCall) {
	if r.past == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.past.writes {
		if !r.isAccountedFor(c) {
			list = append(list, c)
		}
	}
	return list
}

// Unreached returns the calls that wrote, or may have, before the run was resumed, and that the chain has neither made nor reused so far.
// Unlike Unmatched, it includes calls whose outcome the caller assumed and calls that were undone, but no undos.
func (r *Run) Unreached() (list []*PastCall) {
	if r.past == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.past.writes {
		if c.Undoes == 0 && !r.isMatched(c) && slices.Contains([]fault.Outcome{fault.Applied, fault.SentUnknown, fault.Undone}, c.Outcome) {
			list = append(list, c)
		}
	}
	return list
}

// EqualCalls returns the calls of the same function with the same arguments in this run.
func (r *Run) EqualCalls(c *Call) []*PastCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.past.calls[c.mac]), func(p *PastCall) bool { return p == nil })
}

// AllMatched reports whether Unmatched returns none. A matched call stays matched, so only the others are checked again.
func (r *Run) AllMatched() bool {
	if r.past == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.accounted < len(r.past.writes) && r.isAccountedFor(r.past.writes[r.accounted]) {
		r.accounted++
	}
	return r.accounted == len(r.past.writes)
}

func (r *Run) isAccountedFor(c *PastCall) bool {
	if c.Undoes != 0 && c.Outcome == fault.Applied {
		return true // not a call of the chain: it undid one, which is made again
	}
	return c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown || c.Assumed || r.isMatched(c)
}

// Rehearse returns a run that knows what this one knows and writes nothing, to follow a chain as far as its calls were made.
func (r *Run) Rehearse() *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	past, matchedAt := r.past.clone(), map[*PastCall]string{}
	for c, stepPath := range r.matchedAt { // these are calls of the chain even if the rehearsal does not come that far
		if c != nil {
			matchedAt[past.call(mac(c.MAC), c.Ordinal)] = stepPath
		}
	}
	return &Run{j: r.j, canonical: r.canonical, resumedAt: r.resumedAt, past: past, row: r.row, failure: errRehearsal, matchedAt: matchedAt,
		wasSuspended: r.wasSuspended}
}
