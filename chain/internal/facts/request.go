package facts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// ResumeFields say how an earlier run continues. They are not part of its chain.
var ResumeFields = []string{"resume", "replace", "assume", "approve", "undo"}

// ArgsOfCall is the JSON Pointer of a single call's arguments in the chain that makes the call.
const ArgsOfCall = "/steps/0/args"

// SortFaults puts faults and warnings in the order of their steps, those without a step first, then by pointer. It returns them.
func SortFaults(list []*fault.Error) []*fault.Error {
	slices.SortStableFunc(list, func(a, b *fault.Error) int {
		return cmp.Or(cmp.Compare(StepOf(a.At), StepOf(b.At)), strings.Compare(a.At, b.At))
	})
	return list
}
