// Package pipelines compares single calls with chains on real pipelines: round trips of the model, tokens that it reads and writes,
// and time.
package pipelines

import (
	"context"
	"fmt"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

const question = `What does a chain save on tasks that nobody here made up? The same task is done by calls one by one, each in a round trip of
the model, and by one chain. Counted by the rules of "onecall bench": *written* are the calls as a model writes them,
{"name":…,"arguments":{…}}; *read* are the answers that enter its context. Shares are ratios of the sums.`

// measurement measures one kind of pipeline and adds to the section. A comment names what cannot be measured here.
type measurement func(ctx context.Context, o *report.Options, counter budget.Counter, s *report.Section) error

// Run measures the section.
func Run(ctx context.Context, o *report.Options) (*report.Section, error) {
	counter, err := budget.NewCounter("", 1)
	if err != nil {
		return nil, err
	}
	s := &report.Section{
		Name: "pipelines", Title: "Round trips and tokens on real pipelines", Question: question, Command: report.Command + " -only pipelines",
		Machine: report.ThisMachine(), Versions: map[string]string{},
	}
	for _, p := range []struct {
		name    string
		measure measurement
	}{
		{"data sets", realChains},
		{"cookbook", cookbook},
		{"repair", repairs},
	} {
		o.Log("   %s", p.name)
		if err := p.measure(ctx, o, counter, s); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return s, nil
}
