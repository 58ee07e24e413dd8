package cli

import (
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

// table is a table of text. In a pipe it is written whole, at a terminal so that its rows fit the width.
type table struct {
	columns []column
	rows    []row
}

// column is a column of a table. Those that a reader looks for first come first.
type column struct {
	name  string
	width int                            // the usual width, for rows that are written one by one
	least int                            // a terminal may cut the cells to this width; 0: they are not cut
	extra bool                           // a terminal without room leaves the column out
	whole bool                           // a terminal without room breaks the cells and does not cut them
	style func(cell string) *color.Color // nil: no color
}

// row is a row of a table.
type row struct {
	cells []string
	notes []string // lines below the row
}

const columnGap = 2

// widths returns the width of each column, -1 for one that is left out. Without rows these are the usual widths. At a terminal without room for the table, columns
// with extra are left out, the last first, and then cells are cut.
func (s *streams) widths(t *table) []int {
	widths, most, least := make([]int, len(t.columns)), -columnGap, -columnGap
	for i := range t.columns {
		if widths[i] = uniseg.StringWidth(t.columns[i].name); len(t.rows) == 0 {
			widths[i] = max(widths[i], t.columns[i].width)
		}
		for _, r := range t.rows {
			widths[i] = max(widths[i], uniseg.StringWidth(r.cells[i]))
		}
		most += widths[i] + columnGap
		least += t.columns[i].atLeast(widths[i]) + columnGap
	}
	if !s.outTerminal {
		return widths
	}
	room := s.outWidth()
	for i := len(widths) - 1; i >= 0 && least > room; i-- {
		if t.columns[i].extra {
			most -= widths[i] + columnGap
			least -= t.columns[i].atLeast(widths[i]) + columnGap
			widths[i] = -1
		}
	}
	for i := len(widths) - 1; i >= 0 && most > room; i-- {
		if minimum := t.columns[i].atLeast(widths[i]); widths[i] > minimum {
			cut := min(most-room, widths[i]-minimum)
			widths[i], most = widths[i]-cut, most-cut
		}
	}
	return widths
}

// atLeast returns the width to which a column of a width may be cut.
func (c *column) atLeast(width int) int {
	if c.least == 0 {
		return width
	}
	return min(width, max(c.least, uniseg.StringWidth(c.name)))
}

// writeTable writes a table with its header. At a narrow terminal it writes each value on a line of its own, after its header.
func (s *streams) writeTable(t *table) error {
	t.printable()
	if s.isNarrow() {
		return s.writeText([]byte(t.list()))
	}
	widths := s.widths(t)
	var b strings.Builder
	b.WriteString(s.header(t, widths))
	for i := range t.rows {
		b.WriteString(s.line(t, &t.rows[i], widths))
	}
	return s.writeText([]byte(b.String()))
}

// printable makes the cells and notes safe to show.
func (t *table) printable() {
	for _, r := range t.rows {
		for _, list := range [][]string{r.cells, r.notes} {
			for i := range list {
				list[i] = textfile.Printable(list[i])
			}
		}
	}
}

func (s *streams) header(t *table, widths []int) string {
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = t.columns[i].name
	}
	return s.line(&table{columns: slices.Repeat([]column{{}}, len(names))}, &row{cells: names}, widths)
}

// line returns a row in columns of these widths, with its notes below.
func (s *streams) line(t *table, r *row, widths []int) string {
	last := len(widths) - 1
	for last > 0 && (widths[last] < 0 || r.cells[last] == "") {
		last--
	}
	room := 1 << 30
	if s.outTerminal {
		room = s.outWidth()
	}
	var b strings.Builder
	gap := 0
	for i, cell := range r.cells[:last+1] {
		if widths[i] < 0 || room <= 0 {
			continue
		}
		if t.columns[i].least > 0 {
			cell = truncate(cell, widths[i])
		}
		if !t.columns[i].whole {
			cell = truncate(cell, room)
		}
		blank := strings.Repeat(" ", gap)
		gap = max(widths[i]-uniseg.StringWidth(cell), 0) + columnGap
		room -= uniseg.StringWidth(cell) + gap
		if style := t.columns[i].style; style != nil {
			cell = s.paint(style(cell), cell)
		}
		b.WriteString(blank + cell)
	}
	b.WriteByte('\n')
	for _, note := range r.notes {
		if s.outTerminal {
			writeWrapped(&b, margin+note, len(margin), s.outWidth())
		} else {
			b.WriteString(margin + note + "\n")
		}
	}
	return b.String()
}

// list returns the rows as lines, one for each value.
func (t *table) list() string {
	var b strings.Builder
	for _, r := range t.rows {
		b.WriteByte('\n')
		for i, cell := range r.cells {
			if cell != "" {
				b.WriteString(strings.TrimSpace(t.columns[i].name+" "+cell) + "\n")
			}
		}
		for _, note := range r.notes {
			b.WriteString(note + "\n")
		}
	}
	return b.String()
}

// isNarrow reports whether the terminal has too few columns for a table.
func (s *streams) isNarrow() bool { return s.outTerminal && s.outWidth() < 40 }

// writeRows writes the rows of a table. At a terminal they are cut to its width.
func (s *streams) writeRows(text []byte) error {
	if !s.outTerminal {
		return s.writeText(text)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(truncate(strings.TrimRight(line, " \n"), s.outWidth()) + "\n")
	}
	return s.writeText([]byte(b.String()))
}
