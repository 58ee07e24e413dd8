package tables

import (
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// callTimes holds the times of calls, bare and through onecall, by round.
type callTimes struct {
	bare, through time.Duration // the times of all calls of the current round
	rounds        []perCall
}

// perCall is the time of a call in one round, in milliseconds.
type perCall struct{ bare, through float64 }

func (a *callTimes) add(bare, through time.Duration) {
	a.bare += bare
	a.through += through
}

// round ends a round of calls.
func (a *callTimes) round(calls int) {
	millis := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(calls) }
	a.rounds = append(a.rounds, perCall{millis(a.bare), millis(a.through)})
	a.bare, a.through = 0, 0
}

// added returns the time that onecall adds to a call.
func (a *callTimes) added() report.Cell { return a.computed("ms", perCall.difference) }

func (p perCall) difference() float64 { return p.through - p.bare }

// row returns a row of times per call.
func (a *callTimes) row(name string) report.Row {
	return row(name, a.cell("ms", func(p perCall) float64 { return p.bare }), a.cell("ms", func(p perCall) float64 { return p.through }),
		a.added(), a.computed("×", func(p perCall) float64 { return p.difference() / p.bare }))
}

// cell returns a median over the rounds.
func (a *callTimes) cell(unit string, metric func(perCall) float64) report.Cell {
	var all []float64
	for _, p := range a.rounds {
		all = append(all, metric(p))
	}
	return report.Of(all, unit)
}

func (a *callTimes) computed(unit string, metric func(perCall) float64) report.Cell {
	c := a.cell(unit, metric)
	c.How = report.Computed
	return c
}

// figure returns the time that onecall adds to a call. The project's own limit is 0.2 ms.
func (a *callTimes) figure(name, title, why string) report.Figure {
	c := a.added()
	return report.Figure{Name: name, Title: title, Value: c.Value, Low: c.Low, High: c.High, Rounds: len(a.rounds), Unit: c.Unit, How: c.How,
		Max: 0.2, Why: why}
}
