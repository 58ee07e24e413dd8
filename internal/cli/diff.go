package cli

import (
	"cmp"
	"context"
	"errors"
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
		Long: "Compare two runs or recordings (files written by run --record), call by call. Times are shown but not compared. Arguments\n" +
			"and results are shown for recordings, and for runs with journal: {values: true}. The exit status is 0 if both did the\n" +
			"same, otherwise 1.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usageErrorf("diff needs two runs, which onecall runs lists, or files that run --record has written")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withApp(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				left, err := c.readTrace(cmd.Context(), a, args[0])
				if err != nil {
					return err
				}
				right, err := c.readTrace(cmd.Context(), a, args[1])
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

// readTrace reads one side of a comparison: a recording if name is an existing file or looks like a path, otherwise a run.
func (c *cli) readTrace(ctx context.Context, a *app.App, name string) (*history.Trace, error) {
	if _, err := os.Stat(name); err == nil || strings.ContainsAny(name, `./\`) {
		t, err := history.Recording(name, &history.RecordingOptions{Scrubber: a.Scrubber(), Journal: a.Journal})
		if err != nil {
			return nil, opError{err}
		}
		return t, nil
	}
	if a.Journal == nil {
		return nil, errNoJournal
	}
	id, err := runName{text: name, any: true}.find(ctx, c, a)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, opErrorf("there is neither a run nor a file %s: onecall runs lists the runs that are kept", fault.Clip(name, 60))
	}
	if err != nil {
		return nil, err
	}
	t, err := c.readTimeline(ctx, a, id)
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
		err = exitError(exitFailed)
	}
	return err
}

// writeDiff writes a row for each call: ~ differs, - is only in the first run, + only in the second.
func (c *cli) writeDiff(d *history.Diff) error {
	rows := mergeRows(d.Calls)
	sides := [...]*history.Side{&d.A, &d.B}
	names := [...]string{"-", "+"}
	if err := c.table("\tOF\tSTATUS\tCALLS\tTOOK\tBYTES\tTOKENS", len(sides), func(i int) string {
		s := sides[i]
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%d\t%d", names[i], cmp.Or(s.Run, s.File), runStatus(s.Status, s.Code), s.Calls,
			formatMillis(s.Millis), s.Bytes, s.Tokens)
	}); err != nil {
		return err
	}
	if err := c.table(diffHeader, len(rows), func(i int) string { return rows[i].String() }); err != nil {
		return err
	}
	lines := valueRows(d.Calls)
	if len(lines) == 0 {
		return nil
	}
	return c.table("\nAT\tFUNCTION\tPLACE\t-\t+", len(lines), func(i int) string { return lines[i] })
}

const diffHeader = "\n\tAT\tFUNCTION\t- STATUS\t+ STATUS\t- TOOK\t+ TOOK\t- BYTES\t+ BYTES\t- TOKENS\t+ TOKENS\tDIFFERS"

// diffRow is a pair of calls, or several equal pairs of one step's elements.
type diffRow struct {
	history.Pair
	at    string
	count int
}

// mergeRows merges adjacent pairs of one step's elements into one row if both sides' calls are equal.
func mergeRows(pairs []history.Pair) (rows []diffRow) {
	for _, p := range pairs {
		side := p.A
		if side == nil {
			side = p.B
		}
		step, _, isElement := strings.Cut(side.At, "[")
		row := diffRow{Pair: p, at: side.At, count: 1}
		if n := len(rows); isElement && n > 0 && len(p.Differs) == 0 && p.A != nil && p.B != nil {
			if last := &rows[n-1]; last.sameStep(&p, step) {
				last.at = step + "[*]"
				last.count++
				last.A, last.B = addSideCalls(last.A, p.A), addSideCalls(last.B, p.B)
				continue
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *diffRow) sameStep(p *history.Pair, step string) bool {
	return strings.HasPrefix(r.at, step+"[") && r.Function == p.Function && len(r.Differs) == 0 && r.A != nil && r.B != nil &&
		r.A.Status == p.A.Status && r.A.Outcome == p.A.Outcome
}

// addSideCalls returns sum with the time, the bytes and the tokens of another call added.
func addSideCalls(sum, s *history.SideCall) *history.SideCall {
	total := *sum
	total.Millis, total.Bytes, total.Tokens = total.Millis+s.Millis, total.Bytes+s.Bytes, total.Tokens+s.Tokens
	return &total
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
	for _, cell := range []func(*history.SideCall) string{
		func(s *history.SideCall) string { return callStatus(s.Status, s.Outcome, s.Code) },
		func(s *history.SideCall) string { return formatMillis(s.Millis) },
		func(s *history.SideCall) string { return fmt.Sprint(s.Bytes) },
		func(s *history.SideCall) string { return fmt.Sprint(s.Tokens) },
	} {
		for _, s := range []*history.SideCall{r.A, r.B} {
			text := ""
			if s != nil {
				text = cell(s)
			}
			cells = append(cells, text)
		}
	}
	return strings.Join(append(cells, strings.Join(r.Differs, ", ")), "\t")
}

// valueRows returns a row for each difference between the arguments or the results of two calls.
func valueRows(pairs []history.Pair) (lines []string) {
	const maxRunes = 60
	for i := range pairs {
		p := &pairs[i]
		for _, values := range []struct {
			what string
			list []history.Difference
		}{{"args", p.Args}, {"result", p.Result}} {
			for _, d := range values.list {
				lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", p.A.At, p.Function, values.what+d.At,
					fault.ClipRunes(string(d.A), maxRunes), fault.ClipRunes(string(d.B), maxRunes)))
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

// formatMillis formats a time in milliseconds; "": it is 0, which means unknown.
func formatMillis(ms float64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", ms)
}
