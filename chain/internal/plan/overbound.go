package plan

import "github.com/onecall-mcp/onecall/fault"

// checkBound refuses a plan that cannot keep within its limits: one that makes too many calls whatever its functions answer, or, if it says
// how many bytes its results may have, one that holds more or may hold more.
func (c *compilation) checkBound(p *Plan) {
	calls := !c.rules.Resumes && p.MaxPossibleCalls(c.rules.MaxElements) > int64(c.Limits.Calls)
	if !calls && !c.Limits.namesBytes {
		return
	}
	c.guard.slot.Release() // a forEach that is worked out takes a slot of its own: who held one and waited for another would wait for itself
	b := (&Bounder{Context: c.guard.ctx, MaxElements: int64(c.rules.MaxElements), MaxConcurrency: c.rules.MaxConcurrency,
		OnlyCalls: !c.Limits.namesBytes}).Of(p)
	if limit := int64(c.Limits.Calls); calls && b.Calls.Low > limit {
		s, n := costliest(p, b, func(s *stepBound) int64 { return s.calls.Low })
		c.Faults.Add(fault.New(fault.LimitExceeded, "the chain makes at least %d calls, the limit is %d (budget.maxCalls): split it, or give %s, "+
			"which makes most (%d), fewer elements", b.Calls.Low, limit, Describe(s), n).Under(s.At))
	}
	limit := c.Limits.Bytes
	switch {
	case !c.Limits.namesBytes:
	case b.Bytes.Low > limit:
		s, n := costliest(p, b, func(s *stepBound) int64 { return s.bytes.Low })
		c.Faults.Add(fault.New(fault.LimitExceeded, "the results have at least %d bytes, the limit is %d (budget.maxBytes): ask for less of %s, "+
			"which gives most (%d), or raise the limit", b.Bytes.Low, limit, Describe(s), n).Under(s.At))
	case b.Bytes.High > limit:
		s, n := costliest(p, b, func(s *stepBound) int64 { return s.bytes.High })
		c.Faults.Add(fault.New(fault.LimitExceeded, "the results may have up to %d bytes, the limit is %d (budget.maxBytes): ask for less of %s, "+
			"which gives most (up to %d), keep less by select, or raise the limit", b.Bytes.High, limit, Describe(s), n).Under(s.At))
	}
}

// costliest returns the step that costs most, and how much.
func costliest(p *Plan, b *Bound, cost func(*stepBound) int64) (*Step, int64) {
	most := 0
	for i := range b.steps {
		if cost(&b.steps[i]) > cost(&b.steps[most]) {
			most = i
		}
	}
	return p.Steps[most], cost(&b.steps[most])
}
