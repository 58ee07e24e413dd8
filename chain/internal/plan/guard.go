package plan

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// HeavySteps and heavyPlanning say what is heavy work: a plan with so many steps, or one that takes so long. A step is compiled within
// 20 µs, but one of its patterns may take 20 ms.
const HeavySteps, heavyPlanning = 64, 5 * time.Millisecond

// HeavyRequest is the size in bytes from which a request is heavy work to decode and to compile.
const HeavyRequest = 256 << 10

// AbandonedFault is the fault for a request whose context ended before anything ran. doing is what was being done: "read" or "checked".
func AbandonedFault(ctx context.Context, err error, doing string) *fault.Error {
	if causeFault, ok := fault.As(context.Cause(ctx)); ok && causeFault != nil {
		return causeFault
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "the caller's deadline passed while the request was %s: nothing ran", doing)
	}
	return fault.New(fault.Cancelled, "the request was cancelled while it was %s: nothing ran", doing)
}

// guard bounds the compilation of a request: it takes a slot for heavy work if it takes long, and ends with its context.
type guard struct {
	ctx     context.Context
	large   bool      // the request is large: its compilation is heavy from the first step on
	since   time.Time // when the context was last checked
	slot    admit.Slot
	failure *fault.Error // why decoding or compilation was cut off; nil: it was not
}

// proceed reports whether step n, counted from 1, may be compiled. Once compilation turns out to be heavy, it waits for a slot.
func (p *guard) proceed(n int) bool {
	if p.failure != nil || !p.large && n%HeavySteps != 0 && time.Since(p.since) < heavyPlanning {
		return p.failure == nil
	}
	if err := p.slot.Acquire(p.ctx); err != nil {
		p.failure = AbandonedFault(p.ctx, err, "checked")
	}
	p.since = time.Now()
	return p.failure == nil
}
