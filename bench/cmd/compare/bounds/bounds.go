// Package bounds measures how near the bounds of dry runs are to what the runs take, on the recorded chains of the data sets.
package bounds

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/datasets"
)

//go:embed bounds.md
var text string

// Section is the section.
var Section = harness.Section{Name: "bounds", Text: text, NoNode: true, Parts: []harness.Part{{Name: "data sets", Measure: measure}}}

// values are what a bound is about.
var values = []string{"calls", "bytes", "tokens"}

// set is what became of the runs of one data set, or of all.
type set struct {
	name               string
	runs, known, above int
	near               map[string]int // by value: the known runs in which the likely one is within a factor of two
}

// measure measures the data sets, if they are here.
func measure(ctx context.Context, b *harness.Bench) {
	b.Machine.Load = -1 // nothing here takes longer on a busy machine
	all := &set{name: "all", near: map[string]int{}}
	var sets []*set
	for _, name := range datasets.Names() {
		chains, err := datasets.Read(filepath.Join(b.Data, name+".jsonl"))
		if errors.Is(err, fs.ErrNotExist) {
			b.Comment("The data set %s is not on this machine, and not measured.", name)
			continue
		}
		harness.Check(err)
		s := &set{name: name, near: map[string]int{}}
		for _, run := range harness.Must(datasets.Bounds(ctx, chains)) {
			s.add(b, &run)
		}
		sets = append(sets, s)
		all.sum(s)
	}
	harness.FailIf(len(sets) == 0, "%w", harness.ErrNotHere)
	b.Corpus = append(b.Corpus, fmt.Sprintf("%d tasks of NESTFUL, tau-bench, BFCL v4, WorkBench and AgentDojo, replayed", all.runs))
	reportSets(b, append(sets, all))
	if len(sets) == len(datasets.Names()) {
		all.figures(b)
	}
}

// add adds a run.
func (s *set) add(b *harness.Bench, run *datasets.Bounded) {
	s.runs++
	if above := run.Above(); len(above) > 0 {
		s.above++
		b.Comment("Not within its bound: %s.", above[0])
	}
	if !run.Known {
		return
	}
	s.known++
	for _, value := range values {
		if run.Near(value) {
			s.near[value]++
		}
	}
}

// sum adds another data set.
func (s *set) sum(more *set) {
	s.runs, s.known, s.above = s.runs+more.runs, s.known+more.known, s.above+more.above
	for value, n := range more.near {
		s.near[value] += n
	}
}

// share returns the percentage of the known runs in which a value is within a factor of two.
func (s *set) share(value string) float64 {
	return 100 * float64(s.near[value]) / float64(max(s.known, 1))
}

func reportSets(b *harness.Bench, sets []*set) {
	count := func(title string, of func(*set) int) report.Column[*set] {
		return report.Column[*set]{Title: title, Cell: func(s *set) report.Cell { return report.Count(of(s), "") }}
	}
	columns := []report.Column[*set]{
		count("runs", func(s *set) int { return s.runs }), count("outside of an end", func(s *set) int { return s.above }),
		count("known", func(s *set) int { return s.known }),
	}
	for _, value := range values {
		columns = append(columns, report.Column[*set]{Title: value + " within", Cell: func(s *set) report.Cell {
			return report.Value(s.share(value), "%").Computed()
		}})
	}
	b.Tables = append(b.Tables, report.TableOf("Bounds and runs", "data set", sets, func(s *set) (string, string) { return s.name, "" }, columns...))
}

// figures adds the figures of all data sets.
func (s *set) figures(b *harness.Bench) {
	b.Figure(report.CountFigure("runs", "runs whose bound was compared", s.runs),
		report.CountFigure("known", "of them with functions that other tasks have called", s.known),
		report.CountFigure("outside", "runs that took more than the high end of their bound, or less than the low one", s.above))
	for _, value := range values {
		b.Figure(report.Figure{Name: "within/" + value, Title: "known runs with likely " + value + " within a factor of two",
			Value: s.share(value), Unit: "%", How: report.Computed, Min: 90})
	}
}
