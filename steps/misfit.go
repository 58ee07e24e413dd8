package steps

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Bounds of the comparison of results with their schema: how many first results of a function are compared, the bytes of a result, and the
// time.
const comparedFirst, maxCompared, comparisonTime = 8, 1 << 20, 100 * time.Millisecond

// resultCheck compares results with the structure of the output schema, on which references depend: the first ones, then fewer and fewer,
// and all once one does not fit.
type resultCheck struct {
	validator func() *schema.Validator
	results   atomic.Uint64
	misfit    atomic.Bool
}

func newResultCheck(output []byte) *resultCheck {
	if len(output) == 0 || string(output) == nullSchema {
		return nil
	}
	return &resultCheck{validator: sync.OnceValue(func() *schema.Validator {
		v, _ := schema.Compile(schema.Structure(output))
		return v
	})}
}

// nullSchema says that a success has no body. Its headers may still be a result.
const nullSchema = `{"type":"null"}`

// Misfit returns a warning if a result does not fit the output schema, so that the next chain may not reach what it holds; else nil. Not
// every result is compared (resultCheck). A result that does not fit is still the result: many services are documented wrongly.
func (e *Entry) Misfit(result []byte) *fault.Error {
	c := e.results
	if c == nil {
		return nil
	}
	if n := c.results.Add(1); !c.misfit.Load() && n > comparedFirst && bits.OnesCount64(n) > 1 || len(result) > maxCompared {
		return nil
	}
	v := c.validator()
	if v == nil || v.Accepts(result) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), comparisonTime)
	defer cancel()
	faults := v.Check(ctx, result)
	if len(faults) == 0 || faults[0].Code == fault.LimitExceeded || faults[0].Code == fault.BadJSON {
		return nil // it fits, or cannot be compared
	}
	c.misfit.Store(true)
	return fault.New(fault.BadReference, "%s: its result does not fit its output schema: %s. %s", e.spec.Name, faults[0].Message,
		e.IgnoreOutput())
}

// IgnoreOutput says how to leave the function's output schema out.
func (e *Entry) IgnoreOutput() string {
	return "If the schema is wrong, set functions." + e.spec.Name + ".output: ignore"
}
