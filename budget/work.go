package budget

import (
	"context"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// heavyBytes is the minimum size of work that needs a slot.
const heavyBytes = 1 << 20

// checkInterval is how many values are processed between two checks of the context.
const checkInterval = 1024

// doWork processes n bytes with do, holding a slot if there are many. do must not acquire another slot or call a store. Errors are those
// of do and, coded, of the context.
func doWork(ctx context.Context, n int, do func(*work) error) error {
	if n < heavyBytes {
		return do(nil)
	}
	var slot admit.Slot
	if err := slot.Acquire(ctx); err != nil {
		return storeFault(err, "read")
	}
	defer slot.Release()
	return do(&work{ctx: ctx})
}

// work is work in progress; nil for little work, which is not interrupted.
type work struct {
	ctx  context.Context
	done int // how many values were processed
	err  error
}

// step is called for each of many values. It reports false once the context has ended: the result is then useless, and interrupted
// returns why.
func (w *work) step() bool {
	if w == nil {
		return true
	}
	if w.done++; w.done%checkInterval == 0 {
		return w.alive()
	}
	return w.err == nil
}

// alive is step for values that take long individually.
func (w *work) alive() bool {
	if w == nil {
		return true
	}
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	return w.err == nil
}

// interrupted returns why the work ended early, as a coded error; nil if it did not.
func (w *work) interrupted() error {
	if w == nil || w.err == nil {
		return nil
	}
	return storeFault(w.err, "read")
}
