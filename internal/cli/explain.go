package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// maxBrief is the maximum number of bytes of a result that are shown in brief. It is much longer than a line, so that secrets are
// removed whole before the line is cut.
const maxBrief = 64 << 10

// stepReporter returns a function that shows each step when it ends, above the line of progress.
func (c *cli) stepReporter(p *progress) func(chain.Progress) {
	var widths [explainCells]int // of the rows so far
	return func(now chain.Progress) {
		if now.Ended {
			fmt.Fprintln(c.err, c.stepLine(&now, c.lineWidth(), &widths))
		}
		p.report(now)
	}
}

// explainCells is the number of cells of a step, without its result: number, id, function, status, time and tokens.
const explainCells = 6

// leastExplain is how wide the cells are at least: the steps come one by one, and the widest is not known before.
var leastExplain = [explainCells]int{1, 6, 12, 2, 6, 8}

// stepLine describes a step that has ended: what --trace says about it, and how its result begins. Cells stand below those of the rows
// before; widths is updated. On a narrow terminal the result goes to a second line.
func (c *cli) stepLine(now *chain.Progress, width int, widths *[explainCells]int) string {
	cells := [explainCells]string{strconv.Itoa(now.Step), now.ID, cmp.Or(now.Function, "chain"), now.Status}
	if now.Reason != "" {
		cells[3] += " (" + now.Reason + ")"
	}
	if now.Elements >= 0 {
		cells[3] += ", " + plural(int64(now.Elements), "element")
	}
	if now.Status != "skipped" {
		cells[4] = wholeMillis(now.Took.Milliseconds())
	}
	brief := ""
	switch {
	case now.Err != nil:
		brief = string(now.Err.Code) + ": " + now.Err.Message
	case now.Result != nil && now.Status != "skipped":
		cells[5] = plural(int64(c.estimate(now.Result)), "token")
		brief = textfile.Prefix(string(now.Result), maxBrief)
	}
	var line strings.Builder
	for i, cell := range cells {
		if cell = textfile.Printable(cell); now.Status == "skipped" && i == 3 { // the last one
			line.WriteString(cell)
			break
		}
		widths[i] = max(widths[i], leastExplain[i], uniseg.StringWidth(cell))
		line.WriteString(pad(cell, widths[i]) + strings.Repeat(" ", columnGap))
	}
	const minResult = 24 // minimum columns for a result
	brief = strings.TrimSpace(textfile.Printable(string(rawjson.Visible([]byte(c.redactor.Text(brief))))))
	head := line.String()
	switch space := width - uniseg.StringWidth(head); {
	case brief == "":
		return truncate(strings.TrimRight(head, " "), width)
	case space < minResult:
		return truncate(strings.TrimRight(head, " "), width) + "\n" + margin + truncate(brief, max(width-len(margin), 1))
	default:
		return head + truncate(brief, space)
	}
}

// lineWidth returns the width of a line on stderr.
func (s *streams) lineWidth() int {
	if s.errTerminal {
		return s.errWidth()
	}
	return defaultWidth
}
