package budget

import (
	"context"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// heavyBytes is from how many bytes on that it works through a piece of work waits for its caller's turn.
const heavyBytes = 1 << 20

// lookEvery is how many values of a large one are worked through between two looks at the clock and at who else waits.
const lookEvery = 1024

// working does a piece of work on so many bytes, in a turn of the caller's where those are many (share.Part.Turn). The work
// waits for nothing but to go on, takes no turn of its own and asks no store. The errors are those of the work and, coded, of
// the context.
func working(ctx context.Context, n int, do func(*work) error) error {
	if n < heavyBytes {
		return do(nil)
	}
	turn, err := admit.From(ctx).Turn(ctx)
	if err != nil {
		return storeFault(err, "read")
	}
	defer turn.Done()
	return do(&work{ctx: ctx, turn: turn})
}

// work is a piece of work under way; nil is one that is over soon.
type work struct {
	ctx  context.Context
	turn *admit.Turn
	done int // values
	err  error
}

// goesOn is asked at each of many values: it lets others have their turn now and then, and answers false once the context has
// ended: then what is made of the values is of no use, and over says why.
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
		w.err = w.turn.Yield(w.ctx)
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
