package scale

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
	"github.com/onecall-mcp/onecall/internal/figure"
)

// growth describes a measurement by a worker: how the cost of something grows with one size.
type growth struct {
	measure string // the name of the measurement
	title   string
	x       string // the meaning of the size
	short   []int  // sizes of the short form
	long    []int  // further sizes of the long form
	columns []column
	figures []sized
}

// column is a column of the table, and a line of the plot that it names.
type column struct {
	title  string
	sample string
	unit   string
	factor float64 // converts the sample's unit to this column's; 0: 1
	each   bool    // the values are divided by the size
	plot   string  // the plot that the column is a line of, such as "functions-time": its topic follows the first hyphen; "": none
	y      string  // the title of the plot's axis
	cut    bool    // the values are cut off by a budget, so the column has no power of growth
}

// sized is a figure about sizes. It does not exist if what it needs was not measured.
type sized interface {
	figure(samplesBySize) (f report.Figure, ok bool)
}

// linear is a figure: the cost per unit of size at size to, divided by that at size from. 1 is linear growth. It compares the fastest
// rounds, because sizes do not take turns, and a machine that is busy during one size would look like growth.
type linear struct {
	name, title string
	sample      string
	from, to    int
}

// value is a figure: a sample at a size, or its ratio to another sample.
type value struct {
	name, title  string
	sample, over string // over "": the sample itself
	size         int
	unit         string
	max          float64
}

// samplesBySize holds the samples of each size. A size that failed is missing.
type samplesBySize map[int]work.Samples

// measured runs the measurement at each size, and adds its table, plots and figures to the section.
func (g *growth) measured(ctx context.Context, w *work.Worker, b *harness.Bench) {
	sizes := g.short
	if !b.Short {
		sizes = slices.Concat(g.short, g.long)
	}
	all, failed := samplesBySize{}, map[int]string{}
	for _, size := range sizes {
		rounds := 5
		if slices.Contains(g.long, size) {
			rounds = 3
		}
		b.Log("%s: %d", g.measure, size)
		err := harness.Try(func() { all[size] = w.Measure(ctx, g.measure, size, rounds) })
		harness.Check(ctx.Err())
		if err != nil {
			b.Log("%v", err)
			failed[size] = err.Error()
		}
	}
	b.Tables = append(b.Tables, g.table(sizes, all, failed))
	b.Plots = append(b.Plots, g.plots(sizes, all)...)
	for _, f := range g.figures {
		if figure, ok := f.figure(all); ok {
			b.Figure(figure)
		}
	}
}

// cell returns a column's value at a size.
func (c *column) cell(size int, samples work.Samples) report.Cell {
	values := make([]float64, 0, len(samples[c.sample]))
	for _, v := range samples[c.sample] {
		if c.factor != 0 {
			v *= c.factor
		}
		if c.each {
			v /= float64(size)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return report.None
	}
	return report.Of(values, c.unit)
}

// table returns a table with a row for each size, and the power with which each column grows between the last two sizes that were
// measured.
func (g *growth) table(sizes []int, all samplesBySize, failed map[int]string) report.Table {
	var columns []report.Column[int]
	for _, c := range g.columns {
		columns = append(columns, report.Column[int]{Title: c.title, Cell: func(size int) report.Cell { return c.cell(size, all[size]) }})
	}
	t := report.TableOf(g.title, g.x, sizes, func(size int) (string, string) { return number(size), failed[size] }, columns...)
	good := slices.DeleteFunc(slices.Clone(sizes), func(size int) bool { return all[size] == nil })
	if n := len(good); n > 1 {
		t.Rows = append(t.Rows, g.powers(good[n-2], good[n-1], all))
	}
	return t
}

// powers returns the row with each column's power of growth between two sizes, which is p if cost grows as the size to the power of p: 0 is
// no growth, 1 is linear. A column without one has a dash.
func (g *growth) powers(from, to int, all samplesBySize) report.Row {
	row := report.Row{Name: fmt.Sprintf("power of growth from %s to %s", number(from), number(to))}
	for _, c := range g.columns {
		a, b := c.cell(from, all[from]).Value, c.cell(to, all[to]).Value
		if a <= 0 || b <= 0 || c.cut {
			row.Cells = append(row.Cells, report.None)
			continue
		}
		row.Cells = append(row.Cells, report.Value(math.Log(b/a)/math.Log(float64(to)/float64(from)), "").Computed())
	}
	return row
}

// plots returns the plots that the columns name, in that order.
func (g *growth) plots(sizes []int, all samplesBySize) (plots []report.Plot) {
	at := map[string]int{}
	for _, c := range g.columns {
		if c.plot == "" {
			continue
		}
		i, ok := at[c.plot]
		if !ok {
			i = len(plots)
			at[c.plot] = i
			_, topic, _ := strings.Cut(c.plot, "-")
			plots = append(plots, report.Plot{Name: "scale-" + c.plot, Title: g.title + ": " + topic, X: g.x, Y: c.y, LogX: true, LogY: true})
		}
		line := report.Line{Name: c.title}
		for _, size := range sizes {
			if v := c.cell(size, all[size]).Value; v > 0 {
				line.Points = append(line.Points, [2]float64{float64(size), v})
			}
		}
		plots[i].Lines = append(plots[i].Lines, line)
	}
	return plots
}

// figure implements sized.
func (f linear) figure(all samplesBySize) (report.Figure, bool) {
	from, to := all[f.from][f.sample], all[f.to][f.sample]
	if len(from) == 0 || len(to) == 0 {
		return report.Figure{}, false
	}
	return report.Figure{
		Name: f.name, Unit: "×", How: report.Computed,
		Title: fmt.Sprintf("%s, of %s / of %s", f.title, number(f.to), number(f.from)),
		Value: slices.Min(to) / float64(f.to) / (slices.Min(from) / float64(f.from)),
	}, true
}

// figure implements sized.
func (v value) figure(all samplesBySize) (report.Figure, bool) {
	f := report.Figure{Name: v.name, Title: v.title, Unit: v.unit, How: report.Measured, Max: v.max}
	f.Value, _, _ = report.Spread(all[v.size][v.sample])
	if v.over != "" {
		base, _, _ := report.Spread(all[v.size][v.over])
		if base == 0 {
			return f, false
		}
		f.Value, f.Unit, f.How = f.Value/base, "×", report.Computed
	}
	return f, f.Value != 0
}

// number returns n with commas between thousands.
func number(n int) string { return figure.Text(float64(n)) }
