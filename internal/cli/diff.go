package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/figure"
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
	calls := &table{columns: diffColumns}
	for _, r := range d.Rows() {
		calls.rows = append(calls.rows, row{cells: diffCells(&r)})
	}
	err := errors.Join(c.writeTable(sidesTable(d)), c.writeText([]byte{'\n'}), c.writeTable(calls))
	if lines := valueRows(d.Calls); len(lines) > 0 {
		values := &table{rows: lines, columns: []column{{name: "AT"}, {name: "FUNCTION", least: 16}, {name: "PLACE"},
			{name: "-", least: 16}, {name: "+", least: 16}}}
		err = errors.Join(err, c.writeText([]byte{'\n'}), c.writeTable(values))
	}
	return err
}

func sidesTable(d *history.Diff) *table {
	t := &table{columns: []column{{}, {name: "OF", least: shortID}, {name: "STATUS", style: statusColor}, {name: "CALLS"}, {name: "TOOK"},
		{name: "BYTES"}, {name: "TOKENS", extra: true}}}
	for i, s := range []*history.Side{&d.A, &d.B} {
		t.rows = append(t.rows, row{cells: []string{[]string{"-", "+"}[i], cmp.Or(s.Run, s.File), string(s.Status), strconv.Itoa(s.Calls),
			knownMillis(s.Millis), strconv.Itoa(s.Bytes), strconv.Itoa(s.Tokens)}})
		if s.Code != "" {
			t.rows[i].notes = []string{string(s.Code)}
		}
	}
	return t
}

var diffColumns = []column{
	{}, {name: "AT"}, {name: "FUNCTION", least: 20}, {name: "- STATUS", least: 12, style: statusColor},
	{name: "+ STATUS", least: 12, style: statusColor}, {name: "- TOOK", extra: true}, {name: "+ TOOK", extra: true},
	{name: "- BYTES", extra: true}, {name: "+ BYTES", extra: true}, {name: "- TOKENS", extra: true}, {name: "+ TOKENS", extra: true},
	{name: "DIFFERS"},
}

// diffCells returns the cells of a row, in the order of diffColumns.
func diffCells(r *history.DiffRow) []string {
	cells := []string{r.Mark(), r.Place(), r.Name()}
	add := func(cell func(*history.SideCall) string) {
		for _, s := range []*history.SideCall{r.A, r.B} {
			text := ""
			if s != nil {
				text = cell(s)
			}
			cells = append(cells, text)
		}
	}
	add((*history.SideCall).Text)
	add(func(s *history.SideCall) string { return knownMillis(s.Millis) })
	add(func(s *history.SideCall) string { return strconv.Itoa(s.Bytes) })
	add(func(s *history.SideCall) string { return strconv.Itoa(s.Tokens) })
	return append(cells, strings.Join(r.Differs, ", "))
}

// valueRows returns a row for each difference between the arguments or the results of two calls.
func valueRows(pairs []history.Pair) (lines []row) {
	const maxRunes = 60
	for i := range pairs {
		p := &pairs[i]
		for _, values := range []struct {
			what string
			list []history.Difference
		}{{"args", p.Args}, {"result", p.Result}} {
			for _, d := range values.list {
				lines = append(lines, row{cells: []string{p.A.At, p.Function, values.what + d.At,
					fault.ClipRunes(string(d.A), maxRunes), fault.ClipRunes(string(d.B), maxRunes)}})
			}
		}
	}
	return lines
}

func runStatus(status journal.Status, code fault.Code) string {
	if code != "" {
		return string(status) + " (" + string(code) + ")"
	}
	return string(status)
}

// knownMillis formats a time in milliseconds; "": it is 0, which means unknown.
func knownMillis(ms float64) string {
	if ms == 0 {
		return ""
	}
	return figure.Millis(ms)
}
