// Package pipelines compares single calls with chains on real pipelines: round trips of the model, tokens that it reads and writes,
// and time.
package pipelines

import (
	"context"
	_ "embed"
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/steps"
)

//go:embed pipelines.md
var text string

// Section is the section.
var Section = harness.Section{Name: "pipelines", Text: text, Parts: []harness.Part{
	{Name: "data sets", Measure: realChains}, {Name: "cookbook", Measure: cookbook}, {Name: "repair", Measure: repairs}}}

// column returns a column of counts.
func column[R any](title string, of func(R) int) report.Column[R] {
	return report.Column[R]{Title: title, Cell: func(r R) report.Cell { return report.Count(of(r), "") }}
}

// recordedApp is an app that records the calls of its chains, and reports nothing: errors are in its answers. The caller closes it.
type recordedApp struct {
	*app.App
	mu     sync.Mutex
	calls  []tally.Call
	failed []bool // by call: whether it failed
}

func openRecorded(ctx context.Context, config, replay string) *recordedApp {
	r := &recordedApp{}
	r.App = harness.Must(app.Open(ctx, &app.Options{Config: config, Replay: replay, Calls: true, Observe: r.observe,
		Reporter: harness.Silent{}, Redactor: &app.Redactor{}}))
	return r
}

func (r *recordedApp) observe(_ context.Context, spec *steps.Spec, args, result []byte, err error) {
	if !tally.Counted(spec.Source()) {
		return
	}
	call := tally.Call{Function: spec.Name, Args: slices.Clone(args), Result: slices.Clone(result)}
	if err != nil {
		call.Result = []byte(fault.Message(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	r.failed = append(r.failed, err != nil)
}
