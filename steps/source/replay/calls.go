package replay

import (
	"encoding/json"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
)

// RecordedCall is one call of a recording.
type RecordedCall struct {
	Line     int // the number of the line in the file, from 1
	Function string
	Chain    string          // the only chain that sees the call; "": every chain sees it
	Args     json.RawMessage // the arguments, with marks instead of secrets
	Marked   bool            // Args have a mark
	Result   json.RawMessage // nil: the call failed
	Err      *fault.Error    // nil: the call succeeded
}

// Calls returns the calls of the recording in file order.
func (c *Cassette) Calls() []RecordedCall {
	list := []RecordedCall{}
	for _, fn := range c.functions {
		for i := range fn.calls {
			one := &fn.calls[i]
			list = append(list, RecordedCall{Line: one.number, Function: fn.name, Chain: one.chain, Args: one.args,
				Marked: one.hasMarks, Result: one.result, Err: one.err})
		}
	}
	slices.SortFunc(list, func(a, b RecordedCall) int { return a.Line - b.Line })
	return list
}
