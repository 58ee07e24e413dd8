package scale

import (
	"math"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	g := &growth{
		title: "Things", x: "things",
		columns: []column{
			{title: "time", sample: "ms", unit: "ms", plot: "time", y: "ms"}, {title: "one", sample: "ms", unit: "µs", factor: 1000, each: true},
			{title: "bare", sample: "bare", unit: "ms", plot: "time"},
		},
	}
	all := samplesBySize{10: {"ms": {3, 1, 2}, "bare": {1}}, 1000: {"ms": {20_000}}}
	table := g.table([]int{10, 100, 1000}, all, map[int]string{100: "it hangs"})
	if c := table.Rows[0].Cells[0]; c.Value != 2 || c.Low >= 2 || c.High <= 2 || c.How != report.Measured {
		t.Errorf("got cell %+v, want 2, measured, between its bounds", c)
	}
	if c := table.Rows[0].Cells[1]; c.Value != 200 || c.Unit != "µs" {
		t.Errorf("got cell %+v, want 200 µs", c)
	}
	if cells := table.Rows[1].Cells; cells[0].Text != "it hangs" || cells[1].Text != "–" {
		t.Errorf("got cells %+v of a failed size, want it hangs, and –", cells)
	}
	if cells := table.Rows[2].Cells; table.Rows[2].Name != "1,000" || cells[0].Low != 0 || cells[2].Text != "–" {
		t.Errorf("got row %q with cells %+v, want 1,000, no lower bound, and –", table.Rows[2].Name, cells)
	}
	if last := table.Rows[3]; last.Name != "power of growth from 10 to 1,000" {
		t.Errorf("got last row %+v, want the power of growth from 10 to 1,000", last)
	}
	powers := g.powers(10, 1000, all).Cells
	if got := powers[0]; math.Abs(got.Value-2) > 1e-9 || got.How != report.Computed {
		t.Errorf("the power of growth is %+v, want 2", got)
	}
	if powers[2].Text != "–" {
		t.Errorf("the power of an unmeasured column: %+v, want –", powers[2])
	}
	plots := g.plots([]int{10, 1000}, all)
	if len(plots) != 1 || len(plots[0].Lines) != 2 || len(plots[0].Lines[0].Points) != 2 || len(plots[0].Lines[1].Points) != 1 {
		t.Errorf("got plots %+v, want one of 2 lines with 2 points and 1 point", plots)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	all := samplesBySize{10: {"ms": {1}, "bare": {4}}, 100: {"ms": {50, 20, 90}}}
	f, ok := (linear{"a", "time", "ms", 10, 100}).figure(all)
	if !ok || f.Value != 2 || f.Title != "time, of 100 / of 10" {
		t.Errorf("got figure %+v, %t, want 2, titled time, of 100 / of 10", f, ok)
	}
	if _, ok := (linear{"a", "time", "ms", 10, 1000}).figure(all); ok {
		t.Error("a size that was not measured has a figure")
	}
	f, ok = (value{name: "b", sample: "ms", over: "bare", size: 10}).figure(all)
	if !ok || f.Value != 0.25 || f.How != report.Computed {
		t.Errorf("got figure %+v, %t, want 0.25, computed", f, ok)
	}
	if _, ok := (value{name: "b", sample: "ms", over: "bare", size: 100}).figure(all); ok {
		t.Error("a ratio to a missing sample has a figure")
	}
}

func TestClientsTable(t *testing.T) {
	t.Parallel()
	round := func(rate float64, failed int) work.LoadResult {
		return work.LoadResult{Rate: rate, P50: 1, P99: 2, Failed: failed, First: "gone"}
	}
	all := []clientResults{
		{clients: 1000, rounds: [2][]work.LoadResult{{round(50, 1), round(60, 0)}, {round(100, 0), round(100, 0)}}},
		{clients: 10_000, why: "too many open files"},
	}
	rows := clientsTable("title", all).Rows
	if c := rows[0].Cells[2]; c.Value != 0.55 || c.How != report.Computed {
		t.Errorf("got cell %+v, want 0.55, computed", c)
	}
	if c := rows[0].Cells[9]; c.Text != "1 chains, 0 calls: gonegonegonegone" {
		t.Errorf("got cell %+v, want 1 chains, 0 calls: gonegonegonegone", c)
	}
	if cells := rows[1].Cells; cells[0].Text != "too many open files" || len(cells) != len(rows[0].Cells) {
		t.Errorf("got cells %+v, want %d, the first too many open files", cells, len(rows[0].Cells))
	}
	figures := clientsFigures("sessions", all)
	if len(figures) != 2 || figures[0].Name != "clients1000/sessions" || figures[0].Value != 0.55 || figures[1].Value != 99.975 {
		t.Errorf("got figures %+v, want clients1000/sessions of 0.55, and one of 99.975", figures)
	}
}

func TestTrend(t *testing.T) {
	t.Parallel()
	if mean, growth := trend([][2]float64{{1, 10}, {2, 20}, {3, 30}}); mean != 20 || math.Abs(growth-1) > 1e-9 {
		t.Errorf("got mean %v, growth %v, want 20 and 1", mean, growth)
	}
	for _, points := range [][][2]float64{nil, {{1, 1}}, {{1, 1}, {1, 2}}, {{1, 0}, {2, 0}}} {
		if _, growth := trend(points); growth != 0 {
			t.Errorf("growth of %v: %v, want 0", points, growth)
		}
	}
}
