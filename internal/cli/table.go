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
	notesAt int // the column below which notes begin; 0: notes are indented by the margin
}

// column is a column of a table. Those that a reader looks for first come first.
type column struct {
	name  string
	width int                            // the usual width; see page.widths
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

// page is what a table is written on.
type page struct {
	terminal, colors bool
	width            int // of a terminal
}

func (s *streams) outPage() page {
	p := page{terminal: s.outTerminal, colors: s.colors}
	if p.terminal {
		p.width = s.outWidth()
	}
	return p
}

func (s *streams) errPage() page {
	return page{terminal: s.errTerminal, colors: s.errColors, width: s.lineWidth()}
}

// widths returns the width of each column, -1 for one that is left out. Without rows these are the usual widths. At a terminal without room
// for the table, columns with extra are left out, the last first, and then cells are cut.
func (p page) widths(t *table) []int {
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
	if !p.terminal {
		return widths
	}
	for i := len(widths) - 1; i >= 0 && least > p.width; i-- {
		if t.columns[i].extra {
			most -= widths[i] + columnGap
			least -= t.columns[i].atLeast(widths[i]) + columnGap
			widths[i] = -1
		}
	}
	for i := len(widths) - 1; i >= 0 && most > p.width; i-- {
		if minimum := t.columns[i].atLeast(widths[i]); widths[i] > minimum {
			cut := min(most-p.width, widths[i]-minimum)
			widths[i], most = widths[i]-cut, most-cut
		}
	}
	return widths
}

// fits reports whether a terminal has room for all columns of a table.
func (p page) fits(t *table) bool {
	total := -columnGap
	for _, width := range p.widths(t) {
		total += width + columnGap
	}
	return total <= p.width
}

// atLeast returns the width to which a column of a width may be cut.
func (c *column) atLeast(width int) int {
	if c.least == 0 {
		return width
	}
	return min(width, max(c.least, uniseg.StringWidth(c.name)))
}

// writeTable writes a table to stdout.
func (s *streams) writeTable(t *table) error { return s.writeText([]byte(t.text(s.outPage()))) }

// text returns the table with its header, unless its columns have no names. On a narrow terminal each value has a line of its own, after
// its header.
func (t *table) text(p page) string {
	t.printable()
	if p.isNarrow() {
		return t.list()
	}
	widths := p.widths(t)
	var b strings.Builder
	if t.hasNames() {
		b.WriteString(p.header(t, widths))
	}
	for i := range t.rows {
		b.WriteString(p.line(t, &t.rows[i], widths))
	}
	return b.String()
}

func (t *table) hasNames() bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.name != "" })
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

func (p page) header(t *table, widths []int) string {
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = t.columns[i].name
	}
	return p.line(&table{columns: slices.Repeat([]column{{}}, len(names))}, &row{cells: names}, widths)
}

// line returns a row in columns of these widths, with its notes below.
func (p page) line(t *table, r *row, widths []int) string {
	last := len(widths) - 1
	for last > 0 && (widths[last] < 0 || r.cells[last] == "") {
		last--
	}
	room := 1 << 30
	if p.terminal {
		room = p.width
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
			cell = paintIf(p.colors, style(cell), cell)
		}
		b.WriteString(blank + cell)
	}
	b.WriteByte('\n')
	indent := len(margin)
	if t.notesAt > 0 {
		indent = 0
		for _, width := range widths[:t.notesAt] {
			indent += max(width+columnGap, 0)
		}
	}
	for _, note := range r.notes {
		if note = strings.Repeat(" ", indent) + note; p.terminal {
			writeWrapped(&b, note, indent, p.width)
		} else {
			b.WriteString(note + "\n")
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

// isNarrow reports whether a terminal has too few columns for a table.
func (p page) isNarrow() bool { return p.terminal && p.width < 40 }

func (s *streams) isNarrow() bool { return s.outPage().isNarrow() }

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
