package steps

import (
	"bytes"
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Check reports the faults of arguments some of whose values are not known yet. It reports only faults that no value of an unknown could
// correct, and ignores the values in args at the unknowns. It returns at most 20 bad_arguments faults, sorted by position. At is the
// position in args, which the message repeats; Available and Nearest list valid properties or values. If the function has secrets
// (Spec.Redact), messages show keys and no values. A check that takes more than two seconds, or more work than the size of the arguments
// allows, reports nothing and leaves the decision to Call.
func (e *Entry) Check(args []byte, unknowns []schema.Unknown) []*fault.Error {
	return e.input.Check(args, unknowns, e.runCheck)
}

// runCheck runs Spec.Check on arguments that match the schema.
func (e *Entry) runCheck(args []byte, unknowns []schema.Unknown) (f *fault.Error) {
	if e.spec.Check == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			f = nil // the call will report it
		}
	}()
	return e.spec.Check(args, func(at string) bool {
		for _, unknown := range unknowns {
			if unknown.At == at || strings.HasPrefix(at, unknown.At+"/") {
				return false
			}
		}
		return true
	})
}

// checkArguments checks the arguments of a call and returns them compact. Those that refer to bytes of blocks are checked as the function
// gets them, which nothing could check before: by the schema and by Spec.Check.
func (e *Entry) checkArguments(ctx context.Context, args []byte) ([]byte, *fault.Error) {
	var accepted []byte
	var f *fault.Error
	var err error
	if !bytes.Contains(args, []byte(blockMark)) {
		accepted, f, err = e.input.Accept(ctx, args, nil)
	} else {
		accepted, f, err = e.acceptBlocks(ctx, args)
	}
	switch {
	case err != nil:
		return nil, e.contextFault(ctx)
	case f != nil:
		return nil, withFunctionName(e.spec, withBlockHint(ctx, args, f))
	}
	return accepted, nil
}

// BlockHint is the remedy for a whole block in place of its bytes. data refers to these.
func BlockHint(data string) string {
	return ". For the bytes of a block, refer to its data, as in " + data
}

// withBlockHint adds the remedy to the fault of an argument that is a whole block.
func withBlockHint(ctx context.Context, args []byte, f *fault.Error) *fault.Error {
	blocks := CallbacksOf(ctx).Blocks
	if !blocks.Any() {
		return f
	}
	value := gjson.ParseBytes(args)
	for _, token := range strings.Split(f.At, "/")[1:] {
		value = value.Get(gjson.Escape(pointerUnescape.Replace(token)))
	}
	if block := blocks.Find(value.Get("data").Str); block == nil || !block.Is(value, block.Handle) {
		return f
	}
	hinted := *f
	hinted.Message += BlockHint("$0.data")
	return &hinted
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// acceptBlocks checks arguments that may have marks of blocks, with base64 in place of these where that makes a difference.
func (e *Entry) acceptBlocks(ctx context.Context, args []byte) (accepted []byte, f *fault.Error, err error) {
	var expanded []byte
	release := func() {}
	defer func() { release() }()
	expand := func(compact []byte) ([]byte, *fault.Error) {
		text, done, err := CallbacksOf(ctx).Blocks.ExpandHeld(compact)
		if done != nil {
			release = done
		}
		if expanded = text; err != nil {
			return nil, fault.From(err, "")
		}
		return expanded, nil
	}
	accepted, f, err = e.input.Accept(ctx, args, expand)
	if f != nil || err != nil || e.spec.Check == nil {
		return accepted, f, err
	}
	if expanded == nil {
		if _, f = expand(accepted); f != nil {
			return nil, f, nil
		}
	}
	if !bytes.Equal(expanded, accepted) {
		f = e.runCheck(expanded, nil)
	}
	return accepted, f, nil
}

// withFunctionName prefixes a fault's message with the function's name.
func withFunctionName(spec *Spec, f *fault.Error) *fault.Error {
	copied := *f
	copied.Message = spec.Name + ": " + f.Message
	return &copied
}
