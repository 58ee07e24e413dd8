package run

import (
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
)

// chargeResult counts a result, which is already held, against the chain's limit.
func (r *Run) chargeResult(p *plan.Step, raw []byte) *fault.Error {
	if int64(len(raw)) > r.o.MaxResultBytes {
		return fault.New(fault.LimitExceeded, "the result has %d bytes, the limit is %d (limits.maxResultBytes)", len(raw),
			r.o.MaxResultBytes).Under(p.At)
	}
	if total := r.resultBytes.Add(int64(len(raw))); total > r.o.MaxChainBytes {
		r.resultBytes.Add(-int64(len(raw)))
		return fault.New(fault.LimitExceeded,
			"the results of this chain have more than %d bytes (limits.maxChainBytes): select less of them", r.o.MaxChainBytes).Under(p.At)
	}
	return nil
}

// holdResult holds the result of a call. If that fails, only a call that is safe to repeat is reported as retryable.
func (r *Run) holdResult(p *plan.Step, n int) *fault.Error {
	f := r.o.Memory.Hold(n)
	if f == nil {
		return nil
	}
	if !p.Repeatable {
		f.Code = fault.LimitExceeded
		f.Message = plan.Describe(p) + " has run, and its result is lost: " + f.Message
	}
	return f.Under(p.At)
}
