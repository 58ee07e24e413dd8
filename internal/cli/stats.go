package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
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

func (c *cli) writeStats(stats *history.Stats) error {
	err := c.table("FUNCTION\tCALLS\tFAILURES\tP50\tP95", len(stats.Functions), func(i int) string {
		s := &stats.Functions[i]
		return fmt.Sprintf("%s\t%d\t%d\t%.1f ms\t%.1f ms", s.Name, s.Count, s.Failures, s.P50, s.P95)
	})
	for _, group := range []struct {
		name string
		list []history.Sum
	}{{"CHAIN", stats.Chains}, {"CALLER", stats.Callers}, {"DAY", stats.Days}} {
		header := "\n" + group.name + "\tRUNS\tFAILURES\tP50\tP95\tCALLS\tROUND TRIPS SAVED\tTOKENS\tKEPT OUT"
		err = errors.Join(err, c.table(header, len(group.list), func(i int) string {
			s := &group.list[i]
			name := s.Name
			if name == "" {
				name = "-"
			}
			return fmt.Sprintf("%s\t%d\t%d\t%.1f ms\t%.1f ms\t%d\t%d\t%d\t%d", name, s.Count, s.Failures, s.P50, s.P95,
				s.Calls, s.Saved, s.Tokens, s.Stored)
		}))
	}
	if save := stats.WorthSaving; len(save) > 0 {
		err = errors.Join(err, c.table("\nWORTH SAVING\tRUNS\tSTEPS\tCALLS\tBY", len(save), func(i int) string {
			w := &save[i]
			functions := strings.Join(w.Functions[:min(len(w.Functions), 3)], " ")
			return fmt.Sprintf("%s\t%d\t%d\t%d\tonecall save %s NAME", functions, w.Count, w.Steps, w.Calls, w.Run)
		}))
	}
	return err
}
