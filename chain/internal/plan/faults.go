package plan

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
)

// MaxWarnings bounds the warnings that are reported for one request.
const MaxWarnings = 100

// Sort puts faults in the order of their steps, those without a step first, then by pointer. It returns them.
func Sort(faults []*fault.Error) []*fault.Error {
	slices.SortStableFunc(faults, func(a, b *fault.Error) int {
		if d := facts.StepOf(a.At) - facts.StepOf(b.At); d != 0 {
			return d
		}
		return strings.Compare(a.At, b.At)
	})
	return faults
}
