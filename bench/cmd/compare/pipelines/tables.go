package pipelines

import (
	"fmt"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/internal/figure"
)

func roundTripTable(sets []*dataSet) report.Table {
	t := report.Table{Title: "Round trips of the model",
		Columns: []string{"data set", "tasks", "calls one by one", "calls side by side, at least", "chains"}}
	for _, d := range sets {
		t.Rows = append(t.Rows, report.Counts(d.title, d.tasks, d.calls.RoundTrips, d.sideBySide, d.chain.RoundTrips))
	}
	return t
}

func tokenTable(sets []*dataSet) report.Table {
	t := report.Table{Title: "Tokens that the model reads and writes", Columns: []string{"data set", "read: calls", "read: chain, lite",
		"read: chain, with a report of each step", "written: calls", "written: chain", "written: TypeScript", "in a tool's arguments",
		"read, lite against calls"}}
	for _, d := range sets {
		row := report.Counts(d.title, d.calls.Read, d.chain.Read, d.fullAnswer, d.calls.Written, d.chain.Written, d.program, d.programCall)
		row.Cells = append(row.Cells, report.Share(d.chain.Read, d.calls.Read))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// way is one way to do the tasks: its round trips, and, by round, the time of all tasks together without the model.
type way struct {
	name  string
	trips int
	times []float64
}

func (d *dataSet) ways() []way {
	return []way{
		{"calls one by one", d.calls.RoundTrips, d.callTimes},
		{"calls side by side, at least", d.sideBySide, d.callTimes},
		{"chains", d.chain.RoundTrips, d.chainTimes},
	}
}

// at returns the mean time of a task in milliseconds, if a round trip of the model takes that many milliseconds.
func (d *dataSet) at(w way, model float64) float64 {
	median, _, _ := report.Spread(w.times)
	return (float64(w.trips)*model + median) / float64(d.tasks)
}

func timeTable(sets []*dataSet) report.Table {
	t := report.Table{Title: "Mean time of a task, by the model's round trip", Columns: []string{"data set", "way"}}
	for _, model := range modelMillis {
		t.Columns = append(t.Columns, figure.Text(model)+" ms")
	}
	for _, d := range sets {
		for _, w := range d.ways() {
			cells := []report.Cell{{Text: w.name}}
			for _, model := range modelMillis {
				cells = append(cells, d.timeCell(w, model))
			}
			t.Rows = append(t.Rows, report.Row{Name: d.title, Cells: cells})
		}
	}
	return t
}

// timeCell returns the mean time of a task, as at does. If the model takes no time, the cell is measured and has a spread, else it is
// computed.
func (d *dataSet) timeCell(w way, model float64) report.Cell {
	if model > 0 {
		return report.Cell{Value: d.at(w, model), Unit: "ms", How: report.Computed}
	}
	means := make([]float64, len(w.times))
	for i, all := range w.times {
		means[i] = all / float64(d.tasks)
	}
	return report.Of(means, "ms")
}

func timePlot(d *dataSet) report.Plot {
	p := report.Plot{Name: "pipelines-time", Title: fmt.Sprintf("Mean time of %d tasks", d.tasks),
		X: "round trip of the model, ms", Y: "a task, ms"}
	for _, w := range d.ways() {
		line := report.Line{Name: w.name}
		for _, model := range modelMillis {
			line.Points = append(line.Points, [2]float64{model, d.at(w, model)})
		}
		p.Lines = append(p.Lines, line)
	}
	return p
}

func (d *dataSet) figures() []report.Figure {
	count := report.CountFigure
	ratio := func(name, title string, a, b float64) report.Figure {
		return report.Figure{Name: name, Title: title, Value: a / b, Unit: "×", How: report.Computed}
	}
	ways := d.ways()
	return []report.Figure{
		count("real/tasks", "tasks of the data sets", d.tasks),
		count("real/round-trips/calls", "tasks of the data sets: round trips, calls one by one", d.calls.RoundTrips),
		count("real/round-trips/side-by-side", "tasks of the data sets: round trips at least, calls side by side", d.sideBySide),
		count("real/round-trips/chain", "tasks of the data sets: round trips, by chains", d.chain.RoundTrips),
		count("real/read/calls", "tasks of the data sets: tokens read, calls one by one", d.calls.Read),
		count("real/read/chain", "tasks of the data sets: tokens read, by lite chains", d.chain.Read),
		count("real/read/chain-full", "tasks of the data sets: tokens read, by chains with a report of each step", d.fullAnswer),
		count("real/written/calls", "tasks of the data sets: tokens written, calls one by one", d.calls.Written),
		count("real/written/chain", "tasks of the data sets: tokens written, as chains", d.chain.Written),
		count("real/written/typescript", "tasks of the data sets: tokens written, as TypeScript, its text alone", d.program),
		count("real/written/typescript-call", "tasks of the data sets: tokens written, as TypeScript in a tool's arguments", d.programCall),
		ratio("real/read/share", "tasks of the data sets: tokens read by lite chains, against calls", float64(d.chain.Read),
			float64(d.calls.Read)),
		ratio("real/written/share", "tasks of the data sets: tokens written as chains, against calls",
			float64(d.chain.Written), float64(d.calls.Written)),
		ratio("real/time-1000/share", "tasks of the data sets: time by chains, against calls, a model's round trip taking 1,000 ms",
			d.at(ways[2], 1000), d.at(ways[0], 1000)),
	}
}
