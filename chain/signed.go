package chain

import (
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// SignedForm returns what a signature of a saved chain signs: its name, its content and that of each saved chain that it calls, in one
// spelling, without $schema and description. Chains with equal forms do the same. saved returns a chain by the name of its function, such
// as chain.pay; nil: that function is no saved chain. It fails for a chain that reads $state, and for one whose caller could set a part of
// its input that its params do not declare (not_supported).
func SignedForm(name string, saved func(name string) *steps.SavedChain) ([]byte, *fault.Error) {
	return plan.SignedForm(name, saved)
}
