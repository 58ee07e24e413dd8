package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// minDetails is the fewest columns that the details of a step are given beside its name; on narrower terminals they go below it.
const minDetails = 24

// planRow is a line of a drawn plan: a heading, or a step.
type planRow struct {
	heading string
	at      string // the step's place, and its id
	name    string // of its function
	details string
}

// drawPlan draws a plan for a person, on lines of at most width columns.
func drawPlan(p *chain.DryRun, width int) string {
	var b strings.Builder
	writeWrapped(&b, "Plan "+p.Hash, 0, width)
	rows := waveRows(p)
	at, name := 0, 0
	for i := range rows {
		at, name = max(at, uniseg.StringWidth(rows[i].at)), max(name, uniseg.StringWidth(rows[i].name))
	}
	for i := range rows {
		rows[i].draw(&b, at, name, width)
	}
	b.WriteByte('\n')
	for _, line := range bounds(p) {
		writeWrapped(&b, line, 2, width)
	}
	return b.String()
}

// waveRows are the waves of a plan with their steps.
func waveRows(p *chain.DryRun) (rows []planRow) {
	for i, wave := range p.Waves {
		rows = append(rows, planRow{heading: fmt.Sprintf("Wave %d", i+1)})
		for _, n := range wave {
			own := ""
			if p.Resume != nil && slices.Contains(p.Resume.Reused, n) {
				own = "reused"
			} else if p.Resume != nil && slices.Contains(p.Resume.Made, n) {
				own = "made"
			}
			rows = appendStep(rows, &p.DryChain, n, "", own)
		}
	}
	return rows
}

// appendStep adds a step, and below it those of the chain that it runs. prefix is the place of the step that runs the chain.
func appendStep(rows []planRow, c *chain.DryChain, n int, prefix, fate string) []planRow {
	s := &c.Steps[n]
	place := prefix + strconv.Itoa(n)
	row := planRow{at: textfile.Printable(strings.TrimSpace(place + " " + s.ID)), name: textfile.Printable(s.Function), details: s.Effect.String()}
	if s.Function == "" {
		row.name = "chain"
	}
	if fate != "" {
		row.details += ", " + fate
	}
	if len(s.After) > 0 {
		row.details += ", after " + ranges(s.After, prefix)
	}
	if s.Approve {
		row.details += ", needs approval"
	}
	if s.Undo != nil {
		row.details += ", undo by " + textfile.Printable(gjson.GetBytes(s.Undo, "fn").Str)
	}
	rows = append(rows, row)
	if s.Chain != nil {
		for _, wave := range s.Chain.Waves {
			for _, inner := range wave {
				rows = appendStep(rows, s.Chain, inner, place+".", "")
			}
		}
	}
	return rows
}

// ranges names steps, neighbors together: 0-3, 5.
func ranges(list []int, prefix string) string {
	list = slices.Sorted(slices.Values(list))
	var parts []string
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		part := prefix + strconv.Itoa(list[i])
		if end > i {
			part += "-" + prefix + strconv.Itoa(list[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, " ")
}

// bounds are the lines below the steps.
func bounds(p *chain.DryRun) []string {
	most := []string{counted(p.MaxCalls, "call")}
	if p.MaxTokens > 0 {
		most = append(most, counted(int64(p.MaxTokens), "token")+" in the answer")
	}
	if p.MaxDuration > 0 {
		most = append(most, fmt.Sprint(p.MaxDuration.Milliseconds(), " ms"))
	}
	lines := []string{
		fmt.Sprintf("Steps: %d read, %d write, %d destroy", p.Counts[steps.Read], p.Counts[steps.Write], p.Counts[steps.Destroy]),
		"At most: " + strings.Join(most, ", "),
	}
	if p.Resume == nil || len(p.Resume.Conflicts) == 0 {
		return lines
	}
	lines = append(lines, "In conflict: the run has made these calls, and the chain does not make them; --assume says what holds")
	for _, c := range p.Resume.Conflicts {
		lines = append(lines, fmt.Sprintf("  %s %s %s", c.Place, textfile.Printable(c.Function), c.Outcome))
	}
	return lines
}

func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// draw writes a row; at and name are the widths of these columns.
func (r *planRow) draw(b *strings.Builder, at, name, width int) {
	switch {
	case r.heading != "":
		b.WriteByte('\n')
		writeWrapped(b, r.heading, 0, width)
	case 2+at+2+name+2+minDetails <= width:
		indent := 2 + at + 2 + name + 2
		writeWrapped(b, "  "+padded(r.at, at)+"  "+padded(r.name, name)+"  "+r.details, indent, width)
	default:
		writeWrapped(b, "  "+r.at+" "+r.name, 4, width)
		writeWrapped(b, "    "+r.details, 4, width)
	}
}

func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(width-uniseg.StringWidth(text), 0))
}

// writeWrapped writes a line as lines of at most width columns, all but the first indented. It breaks at blanks, and within words
// that are too long.
func writeWrapped(b *strings.Builder, line string, indent, width int) {
	if indent > width/2 && uniseg.StringWidth(line) > width {
		indent = 0
	}
	for uniseg.StringWidth(line) > width {
		fits := beginning(line, width)
		cut := len(fits)
		if blank := strings.LastIndexByte(line[:min(cut+1, len(line))], ' '); strings.TrimSpace(line[:max(blank, 0)]) != "" {
			cut = blank
		}
		b.WriteString(strings.TrimRight(line[:cut], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[cut:], " ")
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// beginning is as much of the beginning of a line as width columns hold: one character at least, and more than its indent.
func beginning(line string, width int) string {
	used, end := 0, 0
	for rest, state := line, -1; rest != ""; {
		var cluster string
		var columns int
		cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used += columns; used > width && strings.TrimSpace(line[:end]) != "" {
			break
		}
		end += len(cluster)
	}
	return line[:end]
}
