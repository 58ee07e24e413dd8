package work

import (
	"context"
	"fmt"
	"runtime"
)

// args are the arguments of a noop.
const args = `{"id":"x","value":1}`

// bare calls noop repeatedly, one call after the other, as a program does that has the function itself.
func bare(ctx context.Context, times int) error {
	f := noop()
	for range times {
		if result, err := f.Call(ctx, []byte(args)); err != nil || len(result) != 22 { // the length of noop's result
			return fmt.Errorf("%s, %w", result, err)
		}
	}
	return nil
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
func chainOfSteps(ctx context.Context, count, rounds int, s Samples) error {
	catalog, err := catalogOf(nil)
	if err != nil {
		return err
	}
	defer catalog.Close()
	if err := catalog.Add("bench", source{noop()}); err != nil {
		return err
	}
	engine, err := newEngine(catalog, 0)
	if err != nil {
		return err
	}
	lite, full := dependentSteps(count, true), dependentSteps(count, false)
	text, err := answer(ctx, engine, full, "")
	if err != nil {
		return err
	}
	if err := s.tokens("full-tokens", text); err != nil {
		return err
	}
	const want = `{"id":"a-1","value":7}`
	if err := s.tokens("lite-tokens", []byte(want)); err != nil {
		return err
	}
	for range rounds {
		runtime.GC()
		if err := s.timed("bare-ms", func() error { return bare(ctx, count) }); err != nil {
			return err
		}
		runtime.GC()
		if err := s.timed("chain-ms", func() error { _, err := answer(ctx, engine, lite, want); return err }); err != nil {
			return err
		}
	}
	return nil
}

// elements measures a forEach against the same number of bare calls.
func elements(ctx context.Context, count, rounds int, s Samples) error {
	catalog, err := catalogOf(nil)
	if err != nil {
		return err
	}
	defer catalog.Close()
	if err := catalog.Add("bench", source{noop()}); err != nil {
		return err
	}
	engine, err := newEngine(catalog, 0)
	if err != nil {
		return err
	}
	request := fmt.Appendf(nil, `{"lite":true,"return":"$0[-1].value","steps":[`+
		`{"fn":"bench.noop","forEach":"1..%d","args":{"id":"x","value":"$item"}}]}`, count)
	run := func() error { _, err := answer(ctx, engine, request, "7"); return err }
	if err := run(); err != nil {
		return err
	}
	s.peak("peak-mb")
	for range rounds {
		runtime.GC()
		if err := s.timed("bare-ms", func() error { return bare(ctx, count) }); err != nil {
			return err
		}
		runtime.GC()
		if err := s.timed("chain-ms", run); err != nil {
			return err
		}
	}
	return nil
}
