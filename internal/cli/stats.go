package cli

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/history"
)

func newStatsCommand(c *cli) *cobra.Command {
	f := &filterFlags{}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Sum up what was called: by function, chain, caller and day",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				stats, err := history.StatsOf(cmd.Context(), a.Journal, f.filter(cmd))
				if err != nil {
					return err
				}
				if f.asJSON {
					return c.writeValue(stats)
				}
				return c.writeStats(stats)
			})
		},
	}
	cmd.Flags().DurationVar(&f.since, "since", 0, "only days within this time, such as 48h")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "answer JSON")
	return cmd
}

// writeStats writes a table of functions, and tables of runs: by chain, and by caller and day if there are several. Then it lists the
// chains that are worth saving, each with its command.
func (c *cli) writeStats(stats *history.Stats) error {
	functions := &table{columns: []column{{name: "FUNCTION", least: 20}, {name: "CALLS"}, {name: "FAILED"}, {name: "P50"}, {name: "P95"}}}
	for i := range stats.Functions {
		s := &stats.Functions[i]
		functions.rows = append(functions.rows, row{cells: []string{s.Name, figure.Text(float64(s.Count)), figure.Text(float64(s.Failures)),
			figure.Millis(s.P50), figure.Millis(s.P95)}})
	}
	tables := []*table{functions, sumTable("CHAIN", stats.Chains)}
	if len(stats.Callers) > 1 {
		tables = append(tables, sumTable("CALLER", stats.Callers))
	}
	if len(stats.Days) > 1 {
		tables = append(tables, sumTable("DAY", stats.Days))
	}
	if len(stats.WorthSaving) > 0 {
		tables = append(tables, c.saveTable(stats.WorthSaving))
	}
	for i, t := range tables {
		if i > 0 {
			if err := c.writeText([]byte{'\n'}); err != nil {
				return err
			}
		}
		if err := c.writeTable(t); err != nil {
			return err
		}
	}
	return nil
}

func sumTable(name string, sums []history.Sum) *table {
	t := &table{columns: []column{{name: name, least: 16}, {name: "RUNS"}, {name: "FAILED"}, {name: "P50"}, {name: "P95"},
		{name: "TRIPS SAVED"}, {name: "TOKENS"}, {name: "KEPT OUT"}, {name: "CALLS", extra: true}}}
	for i := range sums {
		s := &sums[i]
		cells := []string{cmp.Or(s.Name, "-")}
		for _, n := range []int64{s.Count, s.Failures} {
			cells = append(cells, figure.Text(float64(n)))
		}
		cells = append(cells, figure.Millis(s.P50), figure.Millis(s.P95))
		for _, n := range []int64{s.Saved, s.Tokens, s.Stored, s.Calls} {
			cells = append(cells, figure.Text(float64(n)))
		}
		t.rows = append(t.rows, row{cells: cells})
	}
	return t
}

// saveTable lists chains that are worth saving. The command that saves one stands on a line of its own, to be copied.
func (c *cli) saveTable(candidates []history.SaveCandidate) *table {
	t := &table{columns: []column{{name: "WORTH SAVING", least: 20}, {name: "RUNS"}, {name: "STEPS"}, {name: "CALLS"}}}
	for i := range candidates {
		w := &candidates[i]
		run := w.Run
		if c.outTerminal {
			run = shortRun(run)
		}
		t.rows = append(t.rows, row{
			cells: []string{cmp.Or(w.Chain, strings.Join(w.Functions[:min(len(w.Functions), 3)], " ")),
				strconv.Itoa(w.Count), strconv.Itoa(w.Steps), strconv.Itoa(w.Calls)},
			notes: []string{"onecall save" + c.configFlag() + " " + run + " NAME"},
		})
	}
	return t
}
