// Package flows measures flow rules on AgentDojo, without a model: how many tasks of users pass rules without a question to a person, and
// how many calls that an injected text wants are stopped before they are sent.
package flows

import (
	"context"
	_ "embed"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

//go:embed flows.md
var text string

// Section is the section.
var Section = harness.Section{Name: "flows", Text: text, NoNode: true, Parts: []harness.Part{{Name: "AgentDojo", Measure: measure}}}

// The ways in which a task is played.
const (
	planned    = "planned"
	stepByStep = "step by step"
)

// ways are played in this order.
var ways = []string{planned, stepByStep}

// measure plays all suites of the data set.
func measure(ctx context.Context, b *harness.Bench) {
	b.Machine.Load = -1 // nothing here takes longer on a busy machine
	var all []*suiteResult
	for _, s := range readSuites(b.Data) {
		harness.In(s.name, func() { all = append(all, s.play(ctx, b)...) })
	}
	reportAll(b, all)
}
