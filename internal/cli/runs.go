package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// withJournal opens the app and calls run. It fails if there is no journal.
func (c *cli) withJournal(ctx context.Context, o app.Options, run func(*app.App) error) (err error) {
	return c.withApp(ctx, o, func(a *app.App) error {
		if a.Journal == nil {
			return errNoJournal
		}
		return run(a)
	})
}

var errNoJournal = opErrorf("runs are not recorded: the configuration says journal: {store: off}")

// withApp opens the app and calls run. If run fails because something is unavailable, such as the journal or the engine, withApp shows why
// and the exit status is that of unavailable.
func (c *cli) withApp(ctx context.Context, o app.Options, run func(*app.App) error) (err error) {
	a, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	err = run(a)
	if f, coded := fault.As(err); coded && f.Code == fault.Unavailable {
		c.noticef("onecall: %s", f.Message)
		return exitError(f.Code.Exit())
	}
	return err
}

// filterFlags select runs.
type filterFlags struct {
	status, function, chain, caller string
	since                           time.Duration
	asJSON                          bool
}

func (f *filterFlags) filter(cmd *cobra.Command) *journal.Filter {
	filter := &journal.Filter{Status: journal.Status(f.status), Function: f.function, Chain: f.chain}
	if cmd.Flags().Changed("caller") {
		caller := strings.TrimPrefix(f.caller, "-") // stats shows the unnamed caller as -
		filter.Caller = &caller
	}
	if f.since > 0 {
		filter.Since = time.Now().Add(-f.since)
	}
	return filter
}

func newRunsCommand(c *cli) *cobra.Command {
	f := &filterFlags{}
	parent, limit, follow, last := "", 0, false, false
	cmd := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "Show past and running chains; with RUN, the calls of one",
		Long: "Show past and running chains, or the calls of one RUN. A run with parts, such as a batch, is one line with the number of its\n" +
			"parts; with RUN, its parts that are not ok are shown, too. --parent, --status, --function and --chain list parts.",
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.status, "status", "", "only runs with this status: running, interrupted, ok, failed, waiting or undone")
	flags.StringVar(&f.function, "function", "", "only runs that call this function")
	flags.StringVar(&f.chain, "chain", "", "only runs of the chain with this name")
	flags.StringVar(&f.caller, "caller", "", "only runs of this caller")
	flags.StringVar(&parent, "parent", "", "only the parts of this run")
	flags.DurationVar(&f.since, "since", 0, "only runs that began within this time, such as 2h")
	flags.IntVar(&limit, "limit", 50, "maximum number of runs")
	flags.BoolVar(&f.asJSON, "json", false, "answer JSON")
	flags.BoolVar(&last, "last", false, "the newest run, in place of RUN")
	flags.BoolVar(&follow, "follow", false, "keep showing new events: of one run until it ends, of all until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.status != "" && !slices.Contains(runStatuses, journal.Status(f.status)) {
			return usageErrorf("--status is %q: use running, interrupted, ok, failed, waiting or undone", fault.Clip(f.status, 60))
		}
		switch {
		case limit < 1:
			return usageErrorf("--limit is %d: the minimum is 1", limit)
		case last && len(args) > 0:
			return wrongUse(cmd, "--last takes the place of RUN: leave out one of them")
		case len(args) == 1 && args[0] == "", cmd.Flags().Changed("parent") && parent == "":
			return wrongUse(cmd, "the id of the run is empty: onecall runs lists them")
		}
		return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
			if last || len(args) == 1 {
				return c.showRun(cmd.Context(), a, runName{text: strings.Join(args, ""), last: last, any: true}, limit, f.asJSON, follow)
			}
			filter := f.filter(cmd)
			filter.Limit = limit
			if parent != "" {
				id, err := runName{text: parent, any: true}.find(cmd.Context(), c, a)
				if err != nil {
					return err
				}
				parent = id
			}
			if parent != "" || f.status == "" && f.function == "" && f.chain == "" {
				filter.Parent = &parent // "": only runs that are not parts of another
			}
			if follow {
				return c.followRuns(cmd.Context(), a, filter, f.asJSON)
			}
			runs, err := history.Runs(cmd.Context(), a.Journal, filter)
			if err != nil {
				return err
			}
			if f.asJSON {
				return c.writeValue(map[string]any{"runs": runs})
			}
			return c.writeRuns(runs)
		})
	}
	return cmd
}

var runStatuses = []journal.Status{
	journal.Running, journal.Interrupted, journal.OK, journal.Failed, journal.Waiting, journal.Undone,
}

// The columns that distinguish runs come first, so that a terminal of 80 columns shows them.
const runHeader = "RUN\tSTATUS\tBEGAN\tCHAIN\tTOOK\tCALLS\tWRITES\tTOKENS"

func (c *cli) writeRuns(runs []history.Run) error {
	return c.table(runHeader, len(runs), func(i int) string { return runRow(&runs[i]) })
}

func runRow(r *history.Run) string {
	name := strings.Join(strings.Fields(r.Chain), " ") // a tab would begin another column
	if name == "" {
		name = strings.Join(r.Functions[:min(len(r.Functions), 3)], " ")
	}
	total := r.Parts.Total()
	if durable.IsID(r.Key) && r.Parent == "" {
		total = r.Steps // chains that have not begun, and lines that are not chains, have no run
	}
	switch countsText := childCounts(r.Parts, total); {
	case name == "":
		name = countsText
	case countsText != "":
		name += " (" + countsText + ")"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.1f ms\t%d\t%d\t%d", r.ID, runStatus(r.Status, r.Code),
		r.Began.Local().Format(time.DateTime), name, r.Millis, r.Calls, r.Writes, r.Tokens)
}

// childCounts returns how many parts a run has, out of total if that is more, and how many have each status; "": it has no parts.
func childCounts(p journal.Parts, total int) string {
	if len(p) == 0 {
		return ""
	}
	var counts []string
	for _, status := range []journal.Status{
		journal.OK, journal.Failed, journal.Interrupted, journal.Waiting, journal.Undone, journal.Running,
	} {
		if n := p[status]; n > 0 {
			counts = append(counts, figure.Text(float64(n))+" "+string(status))
		}
	}
	text := figure.Text(float64(p.Total()))
	switch {
	case total > p.Total():
		text += " of " + figure.Text(float64(total)) + " parts"
	case total == 1:
		text += " part"
	default:
		text += " parts"
	}
	return text + ": " + strings.Join(counts, ", ")
}

// table writes rows under a header. At a narrow terminal it writes each value on a line of its own, after its header.
func (c *cli) table(head string, rows int, row func(i int) string) error {
	var b bytes.Buffer
	if c.isNarrow() {
		columns := strings.Split(strings.TrimLeft(head, "\n"), "\t")
		for i := range rows {
			b.WriteByte('\n')
			for i, cell := range strings.SplitN(row(i), "\t", len(columns)) {
				if cell = strings.TrimSpace(columns[i] + " " + textfile.Printable(cell)); cell != columns[i] {
					b.WriteString(cell + "\n")
				}
			}
		}
		return c.writeText(b.Bytes())
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	for i := range rows {
		cells := strings.Split(row(i), "\t")
		for i := range cells {
			cells[i] = textfile.Printable(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return c.writeRows(b.Bytes())
}

// isNarrow reports whether the terminal has too few columns for a table.
func (s *streams) isNarrow() bool { return s.outTerminal && s.outWidth() < 40 }

// writeRows writes the rows of a table. At a terminal they are cut to its width.
func (s *streams) writeRows(text []byte) error {
	if !s.outTerminal {
		return s.writeText(text)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(truncate(strings.TrimRight(line, " \n"), s.outWidth()) + "\n")
	}
	return s.writeText([]byte(b.String()))
}
