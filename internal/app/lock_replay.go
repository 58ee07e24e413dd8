package app

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// RecordingCheck is what became of the calls of a recording.
type RecordingCheck struct {
	Calls   int // all of them
	Skipped int // of which nothing can be said: their arguments have secrets, or their source is unavailable
	List    []Misfit
}

// Misfit is a recorded call that would fail now, or whose result is not what its function promises now.
type Misfit struct {
	Line     int // in the recording
	Function string
	Chain    string // "": none is named
	Fault    *fault.Error
}

// CheckRecording holds the calls of a recording against the functions as they are now: their arguments against the input schemas, and the
// results of those that succeeded against the output schemas. It calls nothing.
func (a *App) CheckRecording(ctx context.Context, path string) (*RecordingCheck, error) {
	cassette, err := replay.Open(path)
	if err != nil {
		return nil, err
	}
	registry, now, check := a.Catalog.Registry(), a.Lockable(ctx), &RecordingCheck{}
	outputs := map[string]*schema.Validator{}
	for _, call := range cassette.Calls() {
		check.Calls++
		add := func(f *fault.Error) {
			check.List = append(check.List, Misfit{Line: call.Line, Function: call.Function, Chain: call.Chain, Fault: f})
		}
		entry, err := registry.Resolve(call.Function)
		switch {
		case err != nil && (now.IsDown(call.Function) || now.Functions[call.Function] != nil):
			check.Skipped++
			continue
		case err != nil:
			f, _ := fault.As(err)
			add(f)
			continue
		}
		if call.Marked {
			check.Skipped++
			continue
		}
		if faults := entry.Check(call.Args, nil); len(faults) > 0 && call.Err == nil {
			add(faults[0].Under("/args"))
			continue
		}
		if call.Result == nil || len(entry.Spec().Output) == 0 {
			continue
		}
		output, known := outputs[entry.Spec().Name]
		if !known {
			output, _ = schema.Compile(entry.Spec().Output)
			outputs[entry.Spec().Name] = output
		}
		if output != nil {
			if faults := output.Check(ctx, call.Result); len(faults) > 0 {
				add(faults[0].Under("/result"))
			}
		}
	}
	return check, nil
}
