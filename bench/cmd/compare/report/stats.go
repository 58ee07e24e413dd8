package report

import "slices"

// Spread returns the median of values, and the tenth and the ninetieth percentile; zeros if there are no values.
func Spread(values []float64) (median, low, high float64) {
	return Quantile(values, 0.5), Quantile(values, 0.1), Quantile(values, 0.9)
}

// Quantile returns the value below which the share q of values lies. It interpolates between two values. 0 if there are none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	share := at - float64(i)
	return sorted[i]*(1-share) + sorted[i+1]*share
}

// Of returns a measured cell with the median of values, and their spread if there are several.
func Of(values []float64, unit string) Cell {
	median, low, high := Spread(values)
	if len(values) < 2 {
		return Value(median, unit)
	}
	return Cell{Value: median, Low: low, High: high, Unit: unit, How: Measured}
}

// Count returns a measured cell of a number without a spread.
func Count(n int, unit string) Cell { return Value(float64(n), unit) }

// Text returns a cell with a text in place of a number.
func Text(text string) Cell { return Cell{Text: text} }

// None is the cell of what does not exist.
var None = Text("–")

// Value returns a measured cell of a number without a spread.
func Value(v float64, unit string) Cell { return Cell{Value: v, Unit: unit, How: Measured} }

// Computed returns the cell as one that was computed.
func (c Cell) Computed() Cell {
	c.How = Computed
	return c
}

// CountFigure returns a measured figure of a number without a spread.
func CountFigure(name, title string, n int) Figure {
	return Figure{Name: name, Title: title, Value: float64(n), How: Measured}
}

// RatioFigure returns a computed figure, the ratio of a to b, which the project wants to be at most that; 0: it wants nothing.
func RatioFigure[N int | float64](name, title string, a, b N, most float64) Figure {
	return Figure{Name: name, Title: title, Value: float64(a) / float64(b), Unit: "×", How: Computed, Max: most}
}

// SpreadFigure returns a computed figure, the median of values.
func SpreadFigure(name, title string, values []float64, unit string) Figure {
	c := Of(values, unit)
	return Figure{Name: name, Title: title, Value: c.Value, Low: c.Low, High: c.High, Rounds: len(values), Unit: unit, How: Computed}
}

// TokenFigure returns a measured figure of a number of tokens.
func TokenFigure(name, title string, n int) Figure {
	return Figure{Name: name, Title: title, Value: float64(n), Unit: "tokens", How: Measured}
}

// Column is a column of a table in which each row is about a value of type R.
type Column[R any] struct {
	Title string
	Cell  func(R) Cell
}

// TableOf returns a table with a row for each of rows. corner is the title of the column with the rows' names. If there is a reason why a
// row has no numbers, its first cell has it.
func TableOf[R any](title, corner string, rows []R, name func(R) (name, why string), columns ...Column[R]) Table {
	t := Table{Title: title, Columns: []string{corner}}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Title)
	}
	for _, r := range rows {
		name, why := name(r)
		row := Row{Name: name, Cells: slices.Repeat([]Cell{None}, len(columns))}
		for i, c := range columns {
			if why == "" {
				row.Cells[i] = c.Cell(r)
			}
		}
		if why != "" {
			row.Cells[0] = Text(why)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// spreads returns the spreads of the section's cells that have one, each as a share of the cell's value, narrowest first, and the titles
// of the cells' tables.
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
