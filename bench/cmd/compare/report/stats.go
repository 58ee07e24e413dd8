package report

import (
	"slices"
	"sort"
)

// Spread is the median of values, with the tenth and the ninetieth percentile. It is of zeros if there are none.
func Spread(values []float64) (median, low, high float64) {
	sorted := slices.Clone(values)
	sort.Float64s(sorted)
	return Quantile(sorted, 0.5), Quantile(sorted, 0.1), Quantile(sorted, 0.9)
}

// Quantile is the value below which the share q of sorted values lies, between two of them if need be; 0 if there are none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	share := at - float64(i)
	return sorted[i]*(1-share) + sorted[i+1]*share
}

// Of is a measured cell of values: their median, with the spread.
func Of(values []float64, unit string) Cell {
	median, low, high := Spread(values)
	return Cell{Value: median, Low: low, High: high, Unit: unit, How: Measured}
}

// Count is a measured cell of a number that has no spread.
func Count(n int, unit string) Cell {
	return Cell{Value: float64(n), Unit: unit, How: Measured}
}

// Share is a computed cell of one number as a part of another.
func Share(a, b int) Cell {
	return Cell{Value: float64(a) / float64(b), Unit: "×", How: Computed}
}

// Counts is a row of such cells.
func Counts(name string, numbers ...int) Row {
	r := Row{Name: name}
	for _, n := range numbers {
		r.Cells = append(r.Cells, Count(n, ""))
	}
	return r
}

// CountFigure is a measured figure of a number that has no spread.
func CountFigure(name, title string, n int, tolerance float64) Figure {
	return Figure{Name: name, Title: title, Value: float64(n), How: Measured, Tolerance: tolerance}
}

// spreads are the widths of the section's cells that have one, each as a share of its value, the narrowest first, and the titles of their
// tables.
func (s *Section) spreads() (tables []string, widths []float64) {
	for _, t := range s.Tables {
		before := len(widths)
		for _, r := range t.Rows {
			for _, c := range r.Cells {
				if c.High > c.Low && c.Value > 0 {
					widths = append(widths, (c.High-c.Low)/c.Value)
				}
			}
		}
		if len(widths) > before {
			tables = append(tables, "“"+t.Title+"”")
		}
	}
	slices.Sort(widths)
	return tables, widths
}
