package tables

import (
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// added is what calls take bare and through onecall, in rounds.
type added struct {
	bare, through time.Duration // of the round under way
	rounds        []perCall
}

// perCall is what a call takes in a round, in milliseconds.
type perCall struct{ bare, through float64 }

func (a *added) add(bare, through time.Duration) {
	a.bare += bare
	a.through += through
}

// round ends a round of so many calls.
func (a *added) round(calls int) {
	millis := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(calls) }
	a.rounds = append(a.rounds, perCall{millis(a.bare), millis(a.through)})
	a.bare, a.through = 0, 0
}

// more is how much longer a call takes through onecall.
func (a *added) more() report.Cell { return a.computed("ms", perCall.difference) }

func (p perCall) difference() float64 { return p.through - p.bare }

// row is a row of times a call.
func (a *added) row(name string) report.Row {
	return row(name, a.cell("ms", func(p perCall) float64 { return p.bare }), a.cell("ms", func(p perCall) float64 { return p.through }),
		a.more(), a.computed("×", func(p perCall) float64 { return p.difference() / p.bare }))
}

// cell is a median over the rounds.
func (a *added) cell(unit string, of func(perCall) float64) report.Cell {
	var all []float64
	for _, p := range a.rounds {
		all = append(all, of(p))
	}
	return report.Of(all, unit)
}

func (a *added) computed(unit string, of func(perCall) float64) report.Cell {
	c := a.cell(unit, of)
	c.How = report.Computed
	return c
}

// figure is how much longer a call takes through onecall, of which the project asks that it is at most 0.2 ms.
func (a *added) figure(name, title, why string) report.Figure {
	c := a.more()
	return report.Figure{Name: name, Title: title, Value: c.Value, Low: c.Low, High: c.High, Rounds: len(a.rounds), Unit: c.Unit, How: c.How,
		AtMost: 0.2, Why: why}
}
