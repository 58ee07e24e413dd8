package refs

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// heavyWalk is the number of bytes that references may search before resolving them counts as heavy.
const heavyWalk = 1 << 20

// workMeter counts the work of resolving references. After each heavyWalk bytes, resolving needs a slot, and fails if its context has
// ended.
type workMeter struct {
	ctx            context.Context
	blocks         Blocks // of which references give the bytes; nil: they give handles
	inputText      bool   // $input is Scope.InputText
	uncheckedBytes int    // since ctx was checked
	slot           admit.Slot
}

// countBytes counts a value of n bytes before it is searched.
func (w *workMeter) countBytes(n int) *fault.Error {
	if w.uncheckedBytes += n; w.uncheckedBytes < heavyWalk {
		return nil
	}
	w.uncheckedBytes = 0
	switch err := w.slot.Acquire(w.ctx); {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "The time for resolving references is over. Refer to less, or select it in the step before.")
	case err != nil:
		return fault.New(fault.Cancelled, "Resolving references was cancelled.")
	}
	return nil
}
