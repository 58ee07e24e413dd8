package work

import (
	"context"
	"fmt"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// args are the arguments of a noop, and noopResult is its result.
const args, noopResult = `{"id":"x","value":1}`, `{"id":"a-1","value":7}`

// bare returns the baseline: noop is called repeatedly, one call after the other, as a program does that has the function itself.
func bare(ctx context.Context, times int) arm {
	f := noop()
	return arm{sample: "bare-ms", run: func() {
		for range times {
			if result, err := f.Call(ctx, []byte(args)); err != nil || len(result) != len(noopResult) {
				harness.Fail("%s, %w", result, err)
			}
		}
	}}
}

// dependentSteps returns a chain in which each step refers to the one before.
func dependentSteps(count int, lite bool) []byte {
	b := fmt.Appendf(nil, `{"lite":%t,"steps":[{"fn":"bench.noop","args":%s}`, lite, args)
	for i := range count - 1 {
		b = fmt.Appendf(b, `,{"fn":"bench.noop","args":{"id":"$%d.id","value":"$%d.value"}}`, i, i)
	}
	return append(b, "]}"...)
}

// chainOfSteps measures a chain against the same number of bare calls.
func chainOfSteps(ctx context.Context, count int, s Samples) []arm {
	engine, _ := newEngine(0, noop())
	s.tokens("full-tokens", answer(ctx, engine, dependentSteps(count, false), ""))
	s.tokens("lite-tokens", []byte(noopResult))
	return []arm{bare(ctx, count), running(ctx, "chain-ms", engine, dependentSteps(count, true), noopResult)}
}

// elements measures a forEach against the same number of bare calls.
func elements(ctx context.Context, count int, s Samples) []arm {
	engine, _ := newEngine(0, noop())
	chain := running(ctx, "chain-ms", engine, fmt.Appendf(nil, `{"lite":true,"return":"$0[-1].value","steps":[`+
		`{"fn":"bench.noop","forEach":"1..%d","args":{"id":"x","value":"$item"}}]}`, count), "7")
	chain.run()
	s.peak("peak-mb")
	return []arm{bare(ctx, count), chain}
}
