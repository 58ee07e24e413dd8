package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// minDetails is the minimum width, in columns, of a step's details beside its name. On narrower terminals they go below it.
const minDetails = 24

// planRow is a row of a plan: a heading or a step.
type planRow struct {
	heading string
	at      string // the step's number and id
	name    string // the name of the function
	details string
}

// drawPlan returns a plan for a person, in lines of at most width columns.
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
	for i := range p.Flows {
		writeWrapped(&b, flowLine(&p.Flows[i]), 4, width)
	}
	for _, line := range limitLines(p) {
		writeWrapped(&b, line, 2, width)
	}
	return b.String()
}

// waveRows returns the rows of a plan's waves and their steps.
func waveRows(p *chain.DryRun) (rows []planRow) {
	for i, wave := range p.Waves {
		rows = append(rows, planRow{heading: fmt.Sprintf("Wave %d", i+1)})
		for _, n := range wave {
			fate := ""
			if p.Resume != nil && slices.Contains(p.Resume.Reused, n) {
				fate = "reused"
			} else if p.Resume != nil && slices.Contains(p.Resume.Made, n) {
				fate = "made"
				for _, partly := range p.Resume.Partly {
					if partly.Step == n {
						fate = fmt.Sprintf("made, but %d of %d elements reused", partly.Reused, partly.Elements)
					}
				}
			}
			rows = appendStep(rows, &p.DryChain, n, "", fate)
		}
	}
	return rows
}

// appendStep adds a step, and below it the steps of its inline chain. prefix is the number of the step that contains this one, with a dot;
// "": none does. fate is what becomes of the step in a resume, reused or made; "": nothing is shown.
func appendStep(rows []planRow, c *chain.DryChain, n int, prefix, fate string) []planRow {
	s := &c.Steps[n]
	number := prefix + strconv.Itoa(n)
	row := planRow{
		at:      textfile.Printable(strings.TrimSpace(number + " " + s.ID)),
		name:    textfile.Printable(s.Function),
		details: s.Effect.String(),
	}
	if s.Function == "" {
		row.name = "chain"
	}
	if fate != "" {
		row.details += ", " + fate
	}
	if len(s.After) > 0 {
		row.details += ", after " + stepRanges(s.After, prefix)
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
				rows = appendStep(rows, s.Chain, inner, number+".", "")
			}
		}
	}
	return rows
}

// flowLine tells what a flow rule decides, and about which way of values.
func flowLine(f *chain.Flow) string {
	return "flow rule: " + f.Do + " " + textfile.Printable(f.From+" to "+f.To+": "+strings.Join(f.Path, " → "))
}

// stepRanges lists steps, with neighbors joined: 0-3, 5.
func stepRanges(list []int, prefix string) string {
	list = slices.Sorted(slices.Values(list))
	var texts []string
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		text := prefix + strconv.Itoa(list[i])
		if end > i {
			text += "-" + prefix + strconv.Itoa(list[end])
		}
		texts, i = append(texts, text), end+1
	}
	return strings.Join(texts, " ")
}

// limitLines returns the lines below the steps.
func limitLines(p *chain.DryRun) []string {
	lines := []string{
		fmt.Sprintf("Steps: %d read, %d write, %d destroy", p.Counts[steps.Read], p.Counts[steps.Write], p.Counts[steps.Destroy]),
		"Bound: " + boundLine(&p.Bound),
	}
	if p.Resume == nil || len(p.Resume.Conflicts) == 0 {
		return lines
	}
	lines = append(lines, "Conflict: the run made these calls, but the chain does not; set their outcomes with --assume")
	for _, c := range p.Resume.Conflicts {
		lines = append(lines, fmt.Sprintf("  %s %s %s", c.StepPath, textfile.Printable(c.Function), c.Outcome))
	}
	return lines
}

// boundLine says what a run takes.
func boundLine(b *chain.Bound) string {
	var parts []string
	add := func(i chain.Interval, unit string, spell func(n int64) string) {
		if text := figure.Between(i.Low, i.Likely, i.High, spell); text != "" {
			parts = append(parts, strings.TrimSpace(unit+" "+text))
		}
	}
	number := func(n int64) string { return figure.Text(float64(n)) }
	add(b.Calls, "calls", number)
	add(b.Bytes, "bytes", number)
	add(b.Tokens, "tokens", number)
	add(b.Millis, "time", func(n int64) string { return figure.Millis(float64(n)) })
	return strings.Join(parts, "; ")
}

func plural(n int64, what string) string { return pluralOf(n, what, what+"s") }

// pluralOf is plural for a word whose plural has another form.
func pluralOf(n int64, one, many string) string {
	if n != 1 {
		one = many
	}
	return figure.Text(float64(n)) + " " + one
}

// draw writes a row. at and name are the widths of these columns.
func (r *planRow) draw(b *strings.Builder, at, name, width int) {
	switch {
	case r.heading != "":
		b.WriteByte('\n')
		writeWrapped(b, r.heading, 0, width)
	case 2+at+2+name+2+minDetails <= width:
		indent := 2 + at + 2 + name + 2
		writeWrapped(b, "  "+pad(r.at, at)+"  "+pad(r.name, name)+"  "+r.details, indent, width)
	default:
		writeWrapped(b, "  "+r.at+" "+r.name, 4, width)
		writeWrapped(b, "    "+r.details, 4, width)
	}
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-uniseg.StringWidth(text), 0))
}

// writeWrapped writes a line as lines of at most width columns, all but the first indented. It breaks at spaces, and inside a word
// only if the word is too long.
func writeWrapped(b *strings.Builder, line string, indent, width int) {
	if indent > width/2 && uniseg.StringWidth(line) > width {
		indent = 0
	}
	for uniseg.StringWidth(line) > width {
		prefix := fittingPrefix(line, width)
		cut := len(prefix)
		if blank := strings.LastIndexByte(line[:min(cut+1, len(line))], ' '); strings.TrimSpace(line[:max(blank, 0)]) != "" {
			cut = blank
		}
		b.WriteString(strings.TrimRight(line[:cut], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[cut:], " ")
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// fittingPrefix returns the longest prefix of a line that fits into width columns, but at least one character after its indent.
func fittingPrefix(line string, width int) string {
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
