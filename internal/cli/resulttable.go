package cli

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

const (
	maxTableRows = 200 // rows of a result that a terminal shows
	leastCell    = 8   // columns to which a cell may be cut; a table that needs more room is shown as JSON
)

// resultTable returns a table of a result that is an array of flat objects, with a column for each member, and how many objects there are.
// nil: the result is no such array. The table has the first objects only.
func resultTable(result gjson.Result) (t *table, total int) {
	t = &table{}
	columns := map[string]int{}
	flat := result.IsArray()
	result.ForEach(func(_, object gjson.Result) bool {
		if flat = flat && object.IsObject(); !flat {
			return false
		}
		cells := make([]string, len(columns))
		seen := make([]bool, len(columns))
		object.ForEach(func(key, value gjson.Result) bool {
			i, known := columns[key.Str]
			if !known {
				i = len(columns)
				columns[key.Str] = i
				t.columns = append(t.columns, column{name: textfile.Printable(key.Str), least: leastCell})
				cells, seen = append(cells, ""), append(seen, false)
			}
			flat = !value.IsObject() && !value.IsArray() && !seen[i]
			cells[i], seen[i] = textfile.Prefix(cellText(value), maxBrief), true
			return flat
		})
		if total++; total <= maxTableRows {
			t.rows = append(t.rows, row{cells: cells})
		}
		return flat
	})
	if !flat || len(columns) == 0 {
		return nil, 0
	}
	for i := range t.rows { // members that came later
		t.rows[i].cells = append(t.rows[i].cells, make([]string, len(columns)-len(t.rows[i].cells))...)
	}
	t.printable()
	return t, total
}

// cellText returns a text as it is, and any other value as JSON, so that a number keeps its digits.
func cellText(value gjson.Result) string {
	if value.Type == gjson.String {
		return value.Str
	}
	return value.Raw
}

// showTableOf writes a result as a table, and says what is not in it. It reports false, and writes nothing, if the result is no array of
// flat objects, or the terminal has no room for their columns, or if a table would leave out what only a second run could show, which would
// write again.
func (c *cli) showTableOf(out *output, result gjson.Result) (shown bool, err error) {
	p := c.outPage()
	t, total := resultTable(result)
	if t == nil || p.isNarrow() || !p.fits(t) {
		return false, nil
	}
	hidden, isCut := total-len(t.rows), !slices.Equal(p.widths(t), page{}.widths(t))
	if out.unrepeatable && (hidden > 0 || isCut) {
		return false, nil
	}
	if _, err := out.w.WriteString(t.text(p)); err != nil {
		return true, out.wrapWriteError(err)
	}
	if err := out.flush(); err != nil { // so that the notice on stderr comes last
		return true, err
	}
	if hidden > 0 {
		c.noticef("%s more: --json shows all", plural(int64(hidden), "row"))
	} else if isCut {
		c.noticef("Cells are cut to the width of the terminal: --json shows all")
	}
	return true, nil
}
