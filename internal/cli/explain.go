package cli

import (
	"fmt"
	"strings"
	"time"

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
	return func(now chain.Progress) {
		if now.Ended {
			fmt.Fprintln(c.err, c.stepLine(&now, c.lineWidth()))
		}
		p.report(now)
	}
}

// stepLine describes a step that has ended: what --trace says about it, and how its result begins. On a narrow terminal the result
// goes to a second line.
func (c *cli) stepLine(now *chain.Progress, width int) string {
	name := now.Function
	if name == "" {
		name = "chain"
	}
	if now.ID != "" {
		name = now.ID + "  " + name
	}
	status := now.Status
	if now.Reason != "" {
		status += " (" + now.Reason + ")"
	}
	if now.Elements >= 0 {
		status += fmt.Sprintf(", %d elements", now.Elements)
	}
	head := fmt.Sprintf("%d  %s  %s", now.Step, textfile.Printable(name), status)
	if now.Status != "skipped" {
		head += fmt.Sprintf("  %d ms", now.Took/time.Millisecond)
	}
	brief := ""
	switch {
	case now.Err != nil:
		brief = string(now.Err.Code) + ": " + now.Err.Message
	case now.Result != nil && now.Status != "skipped":
		head += fmt.Sprintf("  %d bytes", len(now.Result))
		brief = prefix(string(now.Result), maxBrief)
	}
	const minResult = 24 // minimum columns for a result
	brief = strings.TrimSpace(textfile.Printable(string(rawjson.Visible([]byte(c.redactor.Text(brief))))))
	head = truncate(head, width)
	switch space := width - uniseg.StringWidth(head) - 2; {
	case brief == "":
		return head
	case space < minResult:
		return head + "\n" + margin + truncate(brief, max(width-len(margin), 1))
	default:
		return head + "  " + truncate(brief, space)
	}
}

// lineWidth returns the width of a line on stderr.
func (s *streams) lineWidth() int {
	if s.errTerminal {
		return s.errWidth()
	}
	return defaultWidth
}
