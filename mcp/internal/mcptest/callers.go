// Package mcptest has test fixtures for the MCP server and its transport: callers with tokens, clients, and raw requests.
package mcptest

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Callers maps tokens to their callers. It implements transport.Callers.
type Callers map[string]*steps.Caller

// Verify returns the caller of a token. The caller of "scopeless" has no rights, and "unknowable" cannot be checked.
func (c Callers) Verify(_ context.Context, token string) (*steps.Caller, error) {
	switch caller := c[token]; {
	case token == "scopeless":
		f := fault.New(fault.Denied, "no scope")
		f.Err = steps.ErrScope
		return nil, f
	case token == "unknowable":
		return nil, fault.New(fault.Unavailable, "the keys of https://id.example.com cannot be fetched")
	case caller == nil:
		return nil, fault.New(fault.Denied, "unknown")
	default:
		return caller, nil
	}
}

// Staff are callers by their tokens. ann and eve have the same rights; bob may only read, and only some functions.
var Staff = Callers{
	"ann": {ID: "token:ann", Rights: steps.Rights{Tier: steps.TierReadWrite}},
	"bob": {ID: "token:bob", Rights: steps.Rights{Tier: steps.TierRead, Functions: "shop.item.* shop.slow"}},
	"eve": {ID: "token:eve", Rights: steps.Rights{Tier: steps.TierReadWrite}},
}

// Caller makes a caller of a tier.
func Caller(id string, tier steps.Tier) *steps.Caller {
	return &steps.Caller{ID: id, Rights: steps.Rights{Tier: tier}}
}
