package budget

import (
	"context"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// heavyBytes is from how many bytes on a piece of work is heavy and needs a slot.
const heavyBytes = 1 << 20

// lookEvery is how many values of a large one are worked through between two looks at the context.
const lookEvery = 1024

// working does a piece of work on so many bytes, with a slot if they are many. The work must not acquire another slot, nor ask
// a store. The errors are those of the work and, coded, of the context.
func working(ctx context.Context, n int, do func(*work) error) error {
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

// work is a piece of work under way; nil is one that is over soon.
type work struct {
	ctx  context.Context
	done int // values
	err  error
}

// goesOn is asked at each of many values. It reports false once the context has ended: what is made of the values is of no use
// then, and over says why.
func (w *work) goesOn() bool {
	if w == nil {
		return true
	}
	if w.done++; w.done%lookEvery == 0 {
		return w.looksUp()
	}
	return w.err == nil
}

// looksUp is goesOn for what takes a while by itself.
func (w *work) looksUp() bool {
	if w == nil {
		return true
	}
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	return w.err == nil
}

// over is why the work ended early, coded; nil where it did not.
func (w *work) over() error {
	if w == nil || w.err == nil {
		return nil
	}
	return storeFault(w.err, "read")
}
