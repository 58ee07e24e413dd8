package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
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

// withApp opens the app and calls run. If run fails because something is unavailable, such as the journal or the engine, or because the
// journal's record of a run is unreadable, withApp shows why, and the exit status is that of the code.
func (c *cli) withApp(ctx context.Context, o app.Options, run func(*app.App) error) (err error) {
	a, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	err = run(a)
	if f, coded := fault.As(err); coded && (f.Code == fault.Unavailable || f.Code == fault.Unreadable) {
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
	filter := &journal.Filter{Status: journal.Status(f.status), Function: f.function}
	if f.chain != "" {
		name := strings.TrimPrefix(f.chain, steps.ChainSource+".")
		filter.Chains = []string{name, steps.ChainSource + "." + name} // a saved chain may run under either
		for _, suffix := range chainfile.Suffixes {                    // and one in the working directory under the name of its file
			filter.Chains = append(filter.Chains, name+suffix)
		}
	}
	if cmd.Flags().Changed("caller") {
		filter.Callers = []string{strings.TrimPrefix(f.caller, "-")} // stats shows the unnamed caller as -
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
	flags.StringVar(&f.status, "status", "", "only runs with this status: "+statusList)
	flags.StringVar(&f.function, "function", "", "only runs that call this function")
	flags.StringVar(&f.chain, "chain", "", "only runs of the chain with this name, with or without chain. before it")
	flags.StringVar(&f.caller, "caller", "", "only runs of this caller")
	flags.StringVar(&parent, "parent", "", "only the parts of this run")
	flags.DurationVar(&f.since, "since", 0, "only runs that began within this time, such as 2h")
	flags.IntVar(&limit, "limit", 50, "maximum number of runs")
	flags.BoolVar(&f.asJSON, "json", false, "answer JSON")
	flags.BoolVar(&last, "last", false, "the newest run, in place of RUN")
	flags.BoolVar(&follow, "follow", false, "keep showing new events: of one run until it ends, of all until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.status != "" && !slices.Contains(runStatuses, journal.Status(f.status)) {
			return usageErrorf("--status is %q: use %s", fault.Clip(f.status, 60), statusList)
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
			if len(runs) == 0 && f.chain != "" {
				if err := c.explainNoRuns(cmd.Context(), a, f.chain); err != nil {
					return err
				}
			}
			if f.asJSON {
				return c.writeValue(map[string]any{"runs": runs})
			}
			return c.writeRuns(runs)
		})
	}
	return cmd
}

// explainNoRuns says so if neither a run nor a saved chain has the name.
func (c *cli) explainNoRuns(ctx context.Context, a *app.App, name string) error {
	const maxRuns = 1000 // names of older runs are not suggested
	runs, err := history.Runs(ctx, a.Journal, &journal.Filter{Limit: maxRuns})
	if err != nil {
		return err
	}
	var known []string
	for i := range runs {
		known = append(known, strings.TrimPrefix(runs[i].Chain, steps.ChainSource+"."))
	}
	for _, folder := range c.chainFolders()[1:] { // the first is the working directory
		list, _ := chainfile.List(folder)
		for _, file := range list {
			known = append(known, file.Name)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	name = strings.TrimPrefix(name, steps.ChainSource+".")
	if slices.Contains(known, name) {
		return nil
	}
	message := "no run and no saved chain has the name " + fault.Quote(fault.Clip(name, 60))
	if near := fault.Nearest(name, known, 1); len(near) > 0 {
		message += ": did you mean " + near[0] + "?"
	}
	c.noticef("%s", message)
	return nil
}

var runStatuses = []journal.Status{
	journal.Running, journal.Interrupted, journal.OK, journal.Failed, journal.Waiting, journal.MayContinue, journal.Undone,
}

const statusList = "running, interrupted, ok, failed, waiting, approved or undone"

// The columns of runs: what one looks for first comes first, and fits a terminal of 80 columns.
var runColumns = []column{
	{name: "RUN", width: shortID},
	{name: "CHAIN", width: 24, least: 20},
	{name: "STATUS", width: 11, style: statusColor},
	{name: "WHEN", width: 10},
	{name: "TOOK", width: 7},
	{name: "WRITES"},
	{name: "CALLS", extra: true},
	{name: "TOKENS", extra: true},
	{name: "UNDOS", extra: true},
}

func (c *cli) writeRuns(runs []history.Run) error {
	t := &table{columns: runColumns, rows: make([]row, len(runs))}
	now := time.Now()
	for i := range runs {
		t.rows[i] = c.runRow(&runs[i], func(began time.Time) string { return figure.Ago(began, now) })
	}
	return c.writeTable(t)
}

// runRow returns the row of a run. At a terminal it has the short id, and when says when the run began; elsewhere the row is for programs.
func (c *cli) runRow(r *history.Run, when func(time.Time) string) row {
	id, began := r.ID, r.Began.Local().Format(time.DateTime)
	if c.outTerminal {
		id, began = shortRun(id), when(r.Began)
	}
	list := row{cells: []string{id, r.Title(), string(r.Status), began, figure.Millis(r.Millis),
		strconv.Itoa(r.Writes), strconv.Itoa(r.Calls), strconv.Itoa(r.Tokens), strconv.Itoa(r.Undos)}}
	total := r.Parts.Total()
	if durable.IsID(r.Key) && r.Parent == "" {
		total = r.Steps // chains that have not begun, and lines that are not chains, have no run
	}
	left := ""
	if r.Left > 0 {
		left = plural(int64(r.Left), "call") + " not undone"
	}
	for _, note := range []string{childCounts(r.Parts, total), left, reason(r.Code, r.Message)} {
		if note != "" {
			list.notes = append(list.notes, note)
		}
	}
	return list
}

// shortID is the length of a run's id as a terminal shows it. Commands take it in place of the whole id.
const shortID = len(journal.IDPrefix) + minPrefix

func shortRun(id string) string { return id[:min(len(id), shortID)] }

// childCounts returns how many parts a run has, out of total if that is more, and how many have each status; "": it has no parts.
func childCounts(p journal.Parts, total int) string {
	if len(p) == 0 {
		return ""
	}
	var counts []string
	for _, status := range []journal.Status{
		journal.OK, journal.Failed, journal.Interrupted, journal.Waiting, journal.MayContinue, journal.Undone, journal.Running,
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
