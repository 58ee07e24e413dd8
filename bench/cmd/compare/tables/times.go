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

// median is how much more a call takes through onecall.
func (a *added) median() float64 { return a.cell("ms", perCall.difference).Value }

func (p perCall) difference() float64 { return p.through - p.bare }

// row is a row of times a call.
func (a *added) row(name string) report.Row {
	return row(name, a.cell("ms", func(p perCall) float64 { return p.bare }), a.cell("ms", func(p perCall) float64 { return p.through }),
		a.cell("ms", perCall.difference), a.cell("×", func(p perCall) float64 { return p.difference() / p.bare }))
}

// cell is a median over the rounds.
func (a *added) cell(unit string, of func(perCall) float64) report.Cell {
	var all []float64
	for _, p := range a.rounds {
		all = append(all, of(p))
	}
	return report.Of(all, unit)
}
