package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/history"
)

func newDiffCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs or recordings, call by call",
		Long: "Compare two runs or recordings (files that run --record has written), call by call. Times are shown, and make no difference.\n" +
			"Arguments and results are shown of recordings, and of runs with journal: {values: true}. The exit status is 0 if both did\n" +
			"the same, 1 if not.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("diff needs two runs, which onecall runs lists, or files that run --record has written")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withApp(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				left, err := c.trace(cmd.Context(), a, args[0])
				if err != nil {
					return err
				}
				right, err := c.trace(cmd.Context(), a, args[1])
				if err != nil {
					return err
				}
				return c.showDiff(history.Compare(left, right), asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	return cmd
}

// trace reads one side of a comparison: a file, or else a run.
func (c *cli) trace(ctx context.Context, a *app.App, name string) (*history.Trace, error) {
	if _, err := os.Stat(name); err == nil || strings.ContainsAny(name, `./\`) {
		t, err := history.Recording(name, &history.RecordingOptions{Scrubber: a.Scrubber(), Journal: a.Journal})
		if err != nil {
			return nil, met{err}
		}
		return t, nil
	}
	if a.Journal == nil {
		return nil, errNoJournal
	}
	t, err := c.timeline(ctx, a, name)
	if err != nil {
		return nil, err
	}
	return t.Trace(), nil
}

func (c *cli) showDiff(d *history.Diff, asJSON bool) error {
	var err error
	if asJSON {
		err = c.writeValue(d)
	} else {
		err = c.writeDiff(d)
	}
	if err == nil && !d.Equal {
		err = answered(exitFailed)
	}
	return err
}

// writeDiff writes a line for each call: ~ differs, - is only in the first, + only in the second.
func (c *cli) writeDiff(d *history.Diff) error {
	rows := joined(d.Calls)
	sides := [...]*history.Side{&d.A, &d.B}
	names := [...]string{"-", "+"}
	if err := c.table("\tOF\tSTATUS\tCALLS\tTOOK\tBYTES\tTOKENS", len(sides), func(i int) string {
		s := sides[i]
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%d\t%d", names[i], cmp.Or(s.Run, s.File), runStatus(s.Status, s.Code), s.Calls, took(s.Millis), s.Bytes, s.Tokens)
	}); err != nil {
		return err
	}
	if err := c.table("\n\tAT\tFUNCTION\t- STATUS\t+ STATUS\t- TOOK\t+ TOOK\t- BYTES\t+ BYTES\t- TOKENS\t+ TOKENS\tDIFFERS", len(rows), func(i int) string {
		return rows[i].String()
	}); err != nil {
		return err
	}
	lines := values(d.Calls)
	if len(lines) == 0 {
		return nil
	}
	return c.table("\nAT\tFUNCTION\tPLACE\t-\t+", len(lines), func(i int) string { return lines[i] })
}

// diffRow is a pair of calls, or several equal ones of the elements of a step.
type diffRow struct {
	history.Pair
	at    string
	count int
}

// joined puts equal calls of one step into one row.
func joined(pairs []history.Pair) (rows []diffRow) {
	for _, p := range pairs {
		side := p.A
		if side == nil {
			side = p.B
		}
		step, _, isElement := strings.Cut(side.At, "[")
		row := diffRow{Pair: p, at: side.At, count: 1}
		if n := len(rows); isElement && n > 0 && len(p.Differs) == 0 && p.A != nil && p.B != nil {
			if last := &rows[n-1]; last.joins(&p, step) {
				last.at = step + "[*]"
				last.count++
				last.A, last.B = added(last.A, p.A), added(last.B, p.B)
				continue
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *diffRow) joins(p *history.Pair, step string) bool {
	return strings.HasPrefix(r.at, step+"[") && r.Function == p.Function && len(r.Differs) == 0 && r.A != nil && r.B != nil &&
		r.A.Status == p.A.Status && r.A.Outcome == p.A.Outcome
}

func added(sum, s *history.Seen) *history.Seen {
	own := *sum
	own.Millis, own.Bytes, own.Tokens = own.Millis+s.Millis, own.Bytes+s.Bytes, own.Tokens+s.Tokens
	return &own
}

func (r *diffRow) String() string {
	mark := ""
	switch {
	case r.B == nil:
		mark = "-"
	case r.A == nil:
		mark = "+"
	case len(r.Differs) > 0:
		mark = "~"
	}
	at := r.at
	if r.A != nil && r.B != nil && r.A.At != r.B.At && r.count == 1 {
		at = r.A.At + " → " + r.B.At
	}
	name := r.Function
	if cmp.Or(r.A, r.B).Undoes {
		name += " (undo)"
	}
	if r.count > 1 {
		name += fmt.Sprintf(" ×%d", r.count)
	}
	cells := []string{mark, at, name}
	for _, cell := range []func(*history.Seen) string{
		func(s *history.Seen) string { return callStatus(s.Status, s.Outcome, s.Code) },
		func(s *history.Seen) string { return took(s.Millis) },
		func(s *history.Seen) string { return fmt.Sprint(s.Bytes) },
		func(s *history.Seen) string { return fmt.Sprint(s.Tokens) },
	} {
		for _, s := range []*history.Seen{r.A, r.B} {
			text := ""
			if s != nil {
				text = cell(s)
			}
			cells = append(cells, text)
		}
	}
	return strings.Join(append(cells, strings.Join(r.Differs, ", ")), "\t")
}

// values are lines of the arguments and results that differ.
func values(pairs []history.Pair) (lines []string) {
	const most = 60
	for i := range pairs {
		p := &pairs[i]
		for _, one := range []struct {
			what string
			list []history.Difference
		}{{"args", p.Args}, {"result", p.Result}} {
			for _, d := range one.list {
				lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", p.A.At, p.Function, one.what+d.At,
					fault.ClipRunes(string(d.A), most), fault.ClipRunes(string(d.B), most)))
			}
		}
	}
	return lines
}

func callStatus(status string, outcome fault.Outcome, code fault.Code) string {
	status = cmp.Or(string(outcome), status)
	if code != "" {
		status += " (" + string(code) + ")"
	}
	return status
}

func runStatus(status journal.Status, code fault.Code) string {
	if code != "" {
		return string(status) + " (" + string(code) + ")"
	}
	return string(status)
}

// took is a time; "": it is not known.
func took(ms float64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", ms)
}
