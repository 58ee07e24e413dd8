package refs

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// heavyWalk is from how many bytes of values on, in which references are looked for, resolving them is heavy.
const heavyWalk = 1 << 20

// work is what resolving references has done so far. From heavyWalk on it is heavy: it needs a slot, and ends with its context.
type work struct {
	ctx    context.Context
	walked int // since ctx was looked at
	slot   admit.Slot
}

// walk counts a value before something is looked for in it.
func (w *work) walk(n int) *fault.Error {
	if w.walked += n; w.walked < heavyWalk {
		return nil
	}
	w.walked = 0
	switch err := w.slot.Acquire(w.ctx); {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "The time for resolving references is over. Refer to less, or select it in the step before.")
	case err != nil:
		return fault.New(fault.Cancelled, "Resolving references was cancelled.")
	}
	return nil
}
