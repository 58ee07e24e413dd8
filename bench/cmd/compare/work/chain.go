package work

import (
	"context"
	"fmt"
)

// args are the arguments of a noop, and noopResult is its result.
const args, noopResult = `{"id":"x","value":1}`, `{"id":"a-1","value":7}`

// bare returns the baseline: noop is called repeatedly, one call after the other, as a program does that has the function itself.
func bare(ctx context.Context, times int) arm {
	f := noop()
	return arm{sample: "bare-ms", run: func() error {
		for range times {
			if result, err := f.Call(ctx, []byte(args)); err != nil || len(result) != len(noopResult) {
				return fmt.Errorf("%s, %w", result, err)
			}
		}
		return nil
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
func chainOfSteps(ctx context.Context, count int, s Samples) ([]arm, error) {
	engine, _, err := newEngine(0, noop())
	if err != nil {
		return nil, err
	}
	text, err := answer(ctx, engine, dependentSteps(count, false), "")
	if err != nil {
		return nil, err
	}
	if err := s.tokens("full-tokens", text); err != nil {
		return nil, err
	}
	return []arm{bare(ctx, count), running(ctx, "chain-ms", engine, dependentSteps(count, true), noopResult)},
		s.tokens("lite-tokens", []byte(noopResult))
}

// elements measures a forEach against the same number of bare calls.
func elements(ctx context.Context, count int, s Samples) ([]arm, error) {
	engine, _, err := newEngine(0, noop())
	if err != nil {
		return nil, err
	}
	chain := running(ctx, "chain-ms", engine, fmt.Appendf(nil, `{"lite":true,"return":"$0[-1].value","steps":[`+
		`{"fn":"bench.noop","forEach":"1..%d","args":{"id":"x","value":"$item"}}]}`, count), "7")
	err = chain.run()
	s.peak("peak-mb")
	return []arm{bare(ctx, count), chain}, err
}
