package run

import (
	"encoding/base64"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// results bound the results that a run holds.
type results struct {
	held   *admit.Held
	most   int64        // bytes of one result
	mostIn int64        // bytes of all results of the run
	limit  string       // the key that says so
	bytes  atomic.Int64 // the size of all stored results
}

// charge counts a result, which is already held, against the chain's limit.
func (l *results) charge(p *plan.Step, raw []byte) *fault.Error {
	if int64(len(raw)) > l.most {
		return fault.New(fault.LimitExceeded, "the result has %d bytes, the limit is %d (limits.maxResultBytes)", len(raw), l.most).Under(p.At)
	}
	if total := l.bytes.Add(int64(len(raw))); total > l.mostIn {
		l.bytes.Add(-int64(len(raw)))
		return fault.New(fault.LimitExceeded,
			"the results of this chain have more than %d bytes (%s): select less of them", l.mostIn, l.limit).Under(p.At)
	}
	return nil
}

// keepUndo counts what the journal keeps of a call for its undo, which is held until the run ends, against the chain's limit.
func (l *results) keepUndo(n int) error {
	if total := l.bytes.Add(int64(n)); total > l.mostIn {
		l.bytes.Add(int64(-n))
		return fault.New(fault.LimitExceeded, "the results of this chain, and what its undos need, have more than %d bytes (%s): "+
			"make several chains of it, or do without an undo", l.mostIn, l.limit)
	}
	return l.held.Reserve(n)
}

// expand returns a value with base64 in place of the marks of blocks, for the caller to hold. Short marks may stand for more than there is
// memory, so it is not longer than a result may be.
func (r *Run) expand(value []byte) ([]byte, *fault.Error) {
	if n := r.blocks.ExpandedLength(value); n > len(value) && int64(n) > r.results.most {
		return nil, fault.New(fault.LimitExceeded, "the value has %d bytes with the blocks that it refers to, the limit is %d "+
			"(limits.maxResultBytes): refer to fewer", n, r.results.most)
	}
	expanded, release, err := r.blocks.ExpandHeld(value)
	if err != nil {
		return nil, fault.From(err, "")
	}
	if release != nil {
		release()
	}
	return expanded, nil
}

// blockOverhead is what a block takes in memory, roughly, beside its bytes.
const blockOverhead = 500

// KeepBlock implements steps.BlockMemory.
func (l *results) KeepBlock(n int) error {
	if int64(n) > l.most {
		return fault.New(fault.LimitExceeded, "a block has %d bytes, the limit is %d (limits.maxResultBytes)", n, l.most)
	}
	all := int64(blockOverhead + n + base64.StdEncoding.EncodedLen(n))
	if total := l.bytes.Add(all); total > l.mostIn {
		l.bytes.Add(-all)
		return fault.New(fault.LimitExceeded, "the results of this chain, with a block of %d bytes and base64 of it, have more than %d bytes "+
			"(%s): make several chains of it", n, l.mostIn, l.limit)
	}
	err := l.held.Reserve(blockOverhead + n)
	if err != nil {
		l.bytes.Add(-all)
	}
	return err
}

// HoldArguments implements steps.BlockMemory.
func (l *results) HoldArguments(n int) error {
	if int64(n) > l.mostIn {
		return fault.New(fault.LimitExceeded, "the arguments have %d bytes with the blocks that they refer to, the limit is %d "+
			"(%s): refer to fewer", n, l.mostIn, l.limit)
	}
	return l.held.Reserve(n)
}

// ReleaseArguments implements steps.BlockMemory.
func (l *results) ReleaseArguments(n int) { l.held.Release(n) }

// hold holds the result of a call. If that fails, only a call that is safe to repeat is reported as retryable.
func (l *results) hold(p *plan.Step, n int) *fault.Error {
	f := l.held.Hold(n)
	if f == nil {
		return nil
	}
	if !p.Repeatable {
		f.Code = fault.LimitExceeded
		f.Message = plan.Describe(p) + " has run, and its result is lost: " + f.Message
	}
	return f.Under(p.At)
}
