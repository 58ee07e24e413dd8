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

// maxBrief bounds, in bytes, what is looked at of a result that is shown in brief: far more than a line of a terminal, so that no
// secret is cut before it is taken out.
const maxBrief = 64 << 10

// explained shows each step as it ends, beside the line of progress.
func (c *cli) explained(p *progress) func(chain.Progress) {
	return func(now chain.Progress) {
		if now.Ended {
			p.above(c.err, c.explainLine(&now, c.lineWidth()))
		}
		p.report(now)
	}
}

// explainLine says of a step that has ended what --trace says of it, and how its result begins, in a line; where a narrow terminal
// leaves no room for the result, it stands in a line of its own.
func (c *cli) explainLine(now *chain.Progress, width int) string {
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
	const least = 24 // columns that are worth a look
	brief = strings.TrimSpace(textfile.Printable(string(rawjson.Visible([]byte(c.redactor.Text(brief))))))
	head = cut(head, width)
	switch room := width - uniseg.StringWidth(head) - 2; {
	case brief == "":
		return head
	case room < least:
		return head + "\n" + margin + cut(brief, max(width-len(margin), 1))
	default:
		return head + "  " + cut(brief, room)
	}
}

// lineWidth is the width of a line on stderr.
func (s *streams) lineWidth() int {
	if s.errTerminal {
		return s.errWidth()
	}
	return defaultWidth
}
