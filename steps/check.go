package steps

import (
	"context"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Check finds what is wrong with arguments of which some places are not known: only what no value of the holes could
// put right. What stands in args at a hole does not matter. At most 20 faults of code bad_arguments, sorted by place; At
// is the place in args, which the message repeats, Available and Nearest are the properties or values that would do.
// If the function has secrets (Spec.Redact), keys are shown and values are not. A check
// that takes more than two seconds, or more work than the size of the arguments allows, finds nothing: Call decides then.
func (e *Entry) Check(args []byte, holes []schema.Hole) []*fault.Error {
	return e.input.Check(args, holes, e.inspect)
}

// inspect asks the function itself about arguments that fit its schema.
func (e *Entry) inspect(args []byte, holes []schema.Hole) (f *fault.Error) {
	if e.spec.Check == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			f = nil // the call will tell
		}
	}()
	return e.spec.Check(args, func(at string) bool {
		for _, h := range holes {
			if h.At == at || strings.HasPrefix(at, h.At+"/") {
				return false
			}
		}
		return true
	})
}

// accept checks the arguments of a call, and returns them compact.
func (e *Entry) accept(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	accepted, f, err := e.input.Accept(ctx, args)
	switch {
	case err != nil:
		return nil, e.stopped(ctx)
	case f != nil:
		return nil, named(e.spec, f)
	}
	return accepted, nil
}

// named begins a fault's message with the function's name.
func named(spec *Spec, f *fault.Error) *fault.Error {
	own := *f
	own.Message = spec.Name + ": " + f.Message
	return &own
}
