package run

import (
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// conflicts are the recorded writes that a resumed chain, as far as it can be followed, does not contain.
type conflicts struct {
	once  sync.Once
	list  []*journal.PastCall
	known bool // list is complete
}

// checkConflict checks, before a resumed run makes its first new write, that the corrected chain still contains every write that was
// made. To find out, it follows the chain as far as its calls were made.
func (r *Run) checkConflict(ctx context.Context, p *plan.Step) *fault.Error {
	if r.ledger.Rehearsal || r.ledger.Record.AllMatched() {
		return nil
	}
	c := &r.conflicts
	c.once.Do(func() { c.list, c.known = r.findConflicts(ctx) })
	if !c.known {
		f := r.ends.interrupted(p.At)
		f.Outcome = fault.NotSent
		return f
	}
	return r.ledger.ConflictFault(c.list, p.At)
}

// findConflicts follows the plan without calling anything, and returns the writes that were made but are not in it. It continues if the
// step that called it is cancelled, as when another element failed: otherwise calls that it has not reached would count as conflicts. known
// is false if the request ended first.
func (r *Run) findConflicts(ctx context.Context) (list []*journal.PastCall, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(r.plan.MaxDuration, minReturnTime))
	defer cancel()
	defer context.AfterFunc(r.ends.parent, cancel)()
	silent := Rehearse(ctx, r.plan, r.o, r.ledger.Rehearse())
	return silent.ledger.Record.Unmatched(), ctx.Err() == nil
}

// Rehearse follows a plan by the recorded calls of a ledger, without making any. It notifies no front end or observer.
func Rehearse(ctx context.Context, p *plan.Plan, o *Options, l *ledger.Ledger) *Run {
	memory := o.Memory.Sibling()
	defer memory.End()
	r := New(ctx, p, &Options{Ledger: l, Functions: o.Functions, Caller: o.Caller, State: o.State, Memory: memory,
		MaxConcurrency: o.MaxConcurrency, MaxElements: o.MaxElements, MaxResultBytes: o.MaxResultBytes, MaxChainBytes: o.MaxChainBytes})
	r.steps = r.runLevel(ctx, p, r.scope(), nil)
	return r
}
