package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// withJournal opens what the configuration says, with a journal; a verb that runs nothing starts no source.
func (c *cli) withJournal(ctx context.Context, o app.Options, do func(*app.App) error) (err error) {
	a, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	if a.Journal == nil {
		return unable("nothing is remembered: the configuration says journal: {store: off}")
	}
	err = do(a)
	if f, coded := fault.As(err); coded && f.Code == fault.Unavailable {
		c.note("onecall: %s", f.Message)
		return answered(f.Code.Exit())
	}
	return err
}

// found is the id of a run that is named by it, or by how it begins.
func found(ctx context.Context, a *app.App, begins string) (string, error) {
	id, err := history.Find(ctx, a.Journal, begins)
	if errors.Is(err, journal.ErrNotFound) {
		return "", unable("there is no run %s, or it is not kept any more: onecall runs lists them", fault.Clip(begins, 60))
	}
	return id, err
}

func newResumeCommand(c *cli) *cobra.Command {
	var f answerFlags
	var input string
	var assume []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "resume RUN [FILE]",
		Short: "Go on with a run that failed; what it has done is not done again",
		Long: "Go on with a run that failed, was interrupted or waits for approval. Calls that it made are taken from the journal. With\n" +
			"FILE, a chain, each field of it takes the place of the run's.",
		Args: cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(2)),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&input, "input", "", "what the chain reads as $input from now on: a `JSON` object, or @FILE")
	cmd.Flags().StringArrayVar(&assume, "assume", nil, "what holds of a call that wrote, `PLACE=applied|not_sent|JSON`: JSON is its result")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "answer the plan and run nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator, override.DryRun = true, dryRun
		var fields []argument
		if cmd.Flags().Changed("input") {
			text, err := jsonObject("--input", input)
			if err != nil {
				return err
			}
			fields = append(fields, argument{"input", text})
		}
		if len(assume) > 0 {
			said, err := assumed(assume)
			if err != nil {
				return err
			}
			fields = append(fields, argument{"assume", said})
		}
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.goOn(cmd.Context(), a, args, fields, override)
		})
	}
	return cmd
}

// assumed makes the field assume of what the flags say.
func assumed(list []string) (json.RawMessage, error) {
	var said []argument
	for _, text := range list {
		place, what, ok := strings.Cut(text, "=")
		if !ok || place == "" {
			return nil, usage("--assume %s: write it as PLACE=applied, PLACE=not_sent, or PLACE= and the result as JSON", fault.Clip(text, 100))
		}
		value := jsonText(what)
		if what != string(fault.Applied) && what != string(fault.NotSent) {
			result, err := schema.Compact([]byte(what))
			if err != nil {
				return nil, usage("--assume %s: what holds is applied, not_sent, or the call's result as JSON", fault.Clip(text, 100))
			}
			value = appendObject([]argument{{"result", result}})
		}
		said = append(said, argument{place, value})
	}
	return appendObject(said), nil
}

// goOn sends a run again, with the fields that were given, and those of a chain in a file.
func (c *cli) goOn(ctx context.Context, a *app.App, args []string, fields []argument, override chain.Override) error {
	id, err := found(ctx, a, args[0])
	if err != nil {
		return err
	}
	request := []argument{{"resume", jsonText(id)}}
	if len(args) > 1 {
		files, err := chainfile.Find(args[1:], c.chainFolders())
		if err != nil {
			return statusOfFiles(err)
		}
		e, err := files[0].Read(ctx, c.in, a.MaxRequestBytes)
		if err != nil {
			return statusOfFiles(err)
		}
		if len(e.Faults) > 0 {
			c.showFaults(&source{name: e.File.Name, text: e.Written}, e.Faults)
			return answered(e.Faults[0].Code.Exit())
		}
		gjson.ParseBytes(e.Request).ForEach(func(key, value gjson.Result) bool {
			request = append(request, argument{key.String(), json.RawMessage(value.Raw)})
			return true
		})
	}
	for _, field := range fields { // over those of the file
		for i := range request {
			if request[i].name == field.name {
				request = append(request[:i], request[i+1:]...)
				break
			}
		}
		request = append(request, field)
	}
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	return c.runOne(ctx, a, appendObject(request), override, out)
}

func newUndoCommand(c *cli) *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "undo RUN",
		Short: "Take back what a run has written, the last first",
		Args:  cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(1)),
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator = true
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.goOn(cmd.Context(), a, args, []argument{{"undo", json.RawMessage("true")}}, override)
		})
	}
	return cmd
}

func newApproveCommand(c *cli) *cobra.Command {
	var deny, show bool
	var digest string
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the calls that a run waits with; onecall resume makes them",
		Long: "Approve the calls that a run waits with, each of which may be made once. At a terminal it asks first. They are written as\n" +
			"JSON, as they will be sent.",
		Args: cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				id, err := found(cmd.Context(), a, args[0])
				if err != nil {
					return err
				}
				calls, err := chain.Waiting(cmd.Context(), a.Journal, id)
				if digest == "" && !show && err == nil { // between the question and the answer others may come to wait
					if digest = chain.DigestOf(calls); c.inTerminal && c.errTerminal && !c.confirmed(calls, deny) {
						return answered(exitFailed)
					}
				}
				switch {
				case err != nil || show:
				case deny:
					calls, err = chain.Deny(cmd.Context(), a.Journal, id, digest)
				default:
					calls, err = chain.Approve(cmd.Context(), a.Journal, id, digest)
				}
				switch {
				case journal.IsBusy(err):
					return met{fault.New(fault.Busy, "the run goes on: ask again when it has ended")}
				case err != nil:
					return err
				}
				answer := []json.RawMessage{}
				for _, call := range calls {
					answer = append(answer, json.RawMessage(call.Raw))
				}
				told := map[string]any{"run": id, "calls": answer, "digest": chain.DigestOf(calls)}
				if !show {
					told["approved"] = !deny
				}
				if !show && !deny {
					c.note("onecall resume %s makes them", id)
				}
				return c.writeValue(told)
			})
		},
	}
	cmd.Flags().BoolVar(&deny, "deny", false, "refuse them")
	cmd.Flags().BoolVar(&show, "show", false, "only show them")
	cmd.Flags().StringVar(&digest, "digest", "", "the `digest` that --show gave with the calls: where others wait by now, nothing is approved")
	cmd.MarkFlagsMutuallyExclusive("deny", "show")
	return cmd
}

// confirmed asks at the terminal.
func (c *cli) confirmed(calls []gjson.Result, deny bool) bool {
	for _, call := range calls {
		c.note("%s", textfile.Printable(call.Raw))
	}
	what := "Approve"
	if deny {
		what = "Refuse"
	}
	fmt.Fprintf(c.err, "%s these %d calls? [y/N] ", what, len(calls))
	line, _ := bufio.NewReader(c.in).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(line), "y")
}

// filterFlags say which runs are meant.
type filterFlags struct {
	status, function, chain, caller string
	since                           time.Duration
	asJSON                          bool
}

func (f *filterFlags) filter(cmd *cobra.Command) *journal.Filter {
	filter := &journal.Filter{Status: journal.Status(f.status), Function: f.function, Chain: f.chain}
	if cmd.Flags().Changed("caller") {
		caller := strings.TrimPrefix(f.caller, "-") // as stats shows the one without a name
		filter.Caller = &caller
	}
	if f.since > 0 {
		filter.Since = time.Now().Add(-f.since)
	}
	return filter
}

func newRunsCommand(c *cli) *cobra.Command {
	f := &filterFlags{}
	limit := 0
	cmd := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "Show past and running chains; with RUN, the calls of one",
		Args:  cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.status, "status", "", "only those that are running, ok, failed, waiting or undone")
	flags.StringVar(&f.function, "function", "", "only those that call a function")
	flags.StringVar(&f.chain, "chain", "", "only those of a chain with this name")
	flags.StringVar(&f.caller, "caller", "", "only those of a caller")
	flags.DurationVar(&f.since, "since", 0, "only those that began within this time, such as 2h")
	flags.IntVar(&limit, "limit", 50, "how many at most")
	flags.BoolVar(&f.asJSON, "json", false, "answer JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if known := []journal.Status{journal.Running, journal.OK, journal.Failed, journal.Waiting, journal.Undone}; f.status != "" && !slices.Contains(known, journal.Status(f.status)) {
			return usage("--status is %q: use running, ok, failed, waiting or undone", fault.Clip(f.status, 60))
		}
		if limit < 1 {
			return usage("--limit is %d: the least is 1", limit)
		}
		return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
			if len(args) == 1 {
				return c.showRun(cmd.Context(), a, args[0], f.asJSON)
			}
			filter := f.filter(cmd)
			filter.Limit = limit
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

func (c *cli) showRun(ctx context.Context, a *app.App, begins string, asJSON bool) error {
	id, err := found(ctx, a, begins)
	if err != nil {
		return err
	}
	t, err := history.Of(ctx, a.Journal, id, nil)
	if err != nil {
		return err
	}
	if asJSON {
		return c.writeValue(t)
	}
	if err := c.writeRuns([]history.Run{t.Run}); err != nil {
		return err
	}
	return c.table("AT\tFUNCTION\tSTATUS\tAFTER\tTOOK\tBYTES\tTOKENS", len(t.List), func(i int) string {
		call := &t.List[i]
		status := call.Status
		if call.Outcome != "" {
			status = string(call.Outcome)
		}
		if call.Retries > 0 {
			status += fmt.Sprintf(", %d retries", call.Retries)
		}
		name := call.Function
		if call.Undoes {
			name += " (undo)"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%.1f ms\t%.1f ms\t%d\t%d", call.At, name, status, call.After, call.Millis, call.Bytes, call.Tokens)
	})
}

func (c *cli) writeRuns(runs []history.Run) error {
	return c.table("RUN\tSTATUS\tBEGAN\tTOOK\tCALLS\tWRITES\tTOKENS\tCHAIN", len(runs), func(i int) string {
		r := &runs[i]
		status := string(r.Status)
		if r.Code != "" {
			status += " (" + string(r.Code) + ")"
		}
		name := r.Chain
		if name == "" {
			name = strings.Join(r.Functions[:min(len(r.Functions), 3)], " ")
		}
		return fmt.Sprintf("%s\t%s\t%s\t%.1f ms\t%d\t%d\t%d\t%s", r.ID, status, r.Began.Local().Format(time.DateTime), r.Millis, r.Calls, r.Writes, r.Tokens, name)
	})
}

func newStatsCommand(c *cli) *cobra.Command {
	f := &filterFlags{}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Sum up what was called: by function, chain, caller and day",
		Args:  cobra.NoArgs,
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
	cmd.Flags().DurationVar(&f.since, "since", 0, "only the days within this time, such as 48h")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "answer JSON")
	return cmd
}

func (c *cli) writeStats(stats *history.Stats) error {
	err := c.table("FUNCTION\tCALLS\tFAILURES\tP50\tP95", len(stats.Functions), func(i int) string {
		s := &stats.Functions[i]
		return fmt.Sprintf("%s\t%d\t%d\t%.1f ms\t%.1f ms", s.Name, s.Count, s.Failures, s.P50, s.P95)
	})
	for _, part := range []struct {
		head string
		list []history.Sum
	}{{"CHAIN", stats.Chains}, {"CALLER", stats.Callers}, {"DAY", stats.Days}} {
		err = errors.Join(err, c.table("\n"+part.head+"\tRUNS\tFAILURES\tP50\tP95\tCALLS\tROUND TRIPS SAVED\tTOKENS\tKEPT OUT", len(part.list), func(i int) string {
			s := &part.list[i]
			name := s.Name
			if name == "" {
				name = "-"
			}
			return fmt.Sprintf("%s\t%d\t%d\t%.1f ms\t%.1f ms\t%d\t%d\t%d\t%d", name, s.Count, s.Failures, s.P50, s.P95, s.Calls, s.Saved, s.Tokens, s.Kept)
		}))
	}
	return err
}

// table writes rows under a head.
func (c *cli) table(head string, rows int, row func(i int) string) error {
	var b bytes.Buffer
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
	return c.writeText(b.Bytes())
}
