package draw

import (
	"cmp"
	"math"
	"slices"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// span is a stretch of time in milliseconds, or of a chart.
type span struct{ from, to float64 }

// merge joins spans that overlap, or are at most gap apart, and orders them.
func merge(spans []span, gap float64) (merged []span) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.from <= merged[last].to+gap {
			merged[last].to = max(merged[last].to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// joined joins the spans that are closest until at most limit are left.
func joined(spans []span, limit int) []span {
	for gap := 0.0; ; gap = 2*gap + 0.5 {
		if list := merge(spans, gap); len(list) <= limit {
			return list
		}
	}
}

// scale maps times to places of a chart. Long times in which nothing happens are folded.
type scale struct {
	folds []span
	end   float64
	unit  float64 // the width of a millisecond
}

func newScale(g *Gantt) *scale {
	busy := []span{{0, 0}}
	for i := range g.Rows {
		for _, bar := range g.Rows[i].Bars {
			busy = append(busy, span{bar.From, bar.To})
		}
	}
	busy = merge(busy, 0)
	s := &scale{end: busy[len(busy)-1].to}
	for _, mark := range g.Marks {
		s.end = max(s.end, mark.At)
	}
	total, shown := 0.0, s.end
	for _, b := range busy {
		total += b.to - b.from
	}
	busy = append(busy, span{s.end, s.end})
	for i := 1; i < len(busy); i++ {
		if gap := (span{busy[i-1].to, busy[i].from}); gap.to-gap.from > total/4 {
			s.folds = append(s.folds, gap)
		}
	}
	slices.SortStableFunc(s.folds, func(a, b span) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	s.folds = s.folds[:min(len(s.folds), maxFolds)]
	slices.SortFunc(s.folds, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, f := range s.folds {
		shown -= f.to - f.from
	}
	s.unit = (timeWidth - foldWidth*float64(len(s.folds))) / max(shown, 0.001)
	return s
}

// x returns the place of a time.
func (s *scale) x(at float64) float64 {
	x := margin + nameWidth + at*s.unit
	for _, f := range s.folds {
		if at >= f.to {
			x += foldWidth - (f.to-f.from)*s.unit
		} else if at > f.from {
			x += (at - f.from) * (foldWidth/(f.to-f.from) - s.unit)
		}
	}
	return x
}

// tick is a time with its label.
type tick struct {
	at    float64
	label string
}

// ticks returns the times that are labeled: the beginning, the ends of folded times, and round times after each.
func (s *scale) ticks() (ticks []tick) {
	least := timeWidth / 8 / s.unit
	step := math.Pow(10, math.Ceil(math.Log10(least)))
	for _, part := range []float64{5, 2} {
		if step/part >= least {
			step /= part
			break
		}
	}
	from := 0.0
	for i := range len(s.folds) + 1 {
		ticks = append(ticks, tick{from, figure.Millis(from)})
		to := s.end
		if i < len(s.folds) {
			to = s.folds[i].from - labelWidth/s.unit // the end of the folded time has its label near here
		}
		for n := 1.0; from+n*step <= to; n++ {
			ticks = append(ticks, tick{from + n*step, "+" + figure.Millis(n*step)})
		}
		if i < len(s.folds) {
			from = s.folds[i].to
		}
	}
	return ticks
}
