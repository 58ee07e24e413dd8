package pipelines

import (
	"context"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/steps"
)

// callRecorder records the calls that chains make. The zero value is ready.
type callRecorder struct {
	mu     sync.Mutex
	calls  []tally.Call
	failed []bool // by call: whether it failed
}

func (p *callRecorder) observe(_ context.Context, spec *steps.Spec, args, result []byte, err error) {
	if !tally.Counted(spec.Source()) {
		return
	}
	call := tally.Call{Function: spec.Name, Args: slices.Clone(args), Result: slices.Clone(result)}
	if err != nil {
		call.Result = []byte(fault.Message(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	p.failed = append(p.failed, err != nil)
}

// openQuiet opens an app that reports nothing: errors are in its answers. The caller closes it.
func openQuiet(ctx context.Context, o *app.Options) (*app.App, error) {
	o.Reporter, o.Redactor = silentReporter{}, &app.Redactor{}
	return app.Open(ctx, o)
}

type silentReporter struct{}

// Notice implements app.Reporter.
func (silentReporter) Notice(string, ...any) {}

// Warn implements app.Reporter.
func (silentReporter) Warn(*fault.Error) {}

// Faults implements app.Reporter.
func (silentReporter) Faults(*config.Error) {}
