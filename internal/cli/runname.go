package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/history"
)

// minPrefix is how many characters of a run's id, after journal.IDPrefix, name a run to a command that changes something: a variable that
// is empty, or holds something else, must not name a run by chance.
const minPrefix = 8

// needsRun says what a command that takes a run needs.
const needsRun = "the id of a run, which onecall runs lists, or --last for the newest"

// runName is how a command line names a run.
type runName struct {
	text string // its id or the beginning of it, or the id of a durable run or batch
	last bool   // it is the newest run: text is ""
	any  bool   // any beginning that only one run has is enough: the command changes nothing
}

// runNameFlag lets a command take --last in place of its first argument, RUN. It returns the name and the remaining arguments. The command
// takes at least least of these, and at most most.
func runNameFlag(cmd *cobra.Command, least, most int, needs string) func(args []string) (runName, []string) {
	last := cmd.Flags().Bool("last", false, "the newest run, in place of RUN")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		before := 1 // the arguments before the remaining ones
		if *last {
			before = 0
		}
		switch {
		case len(args) < before+least || !*last && args[0] == "":
			return wrongUse(cmd, cmd.Name()+" needs "+needs)
		case len(args) > before+most:
			return wrongUse(cmd, fmt.Sprintf("%s is one argument too many", fault.Quote(fault.Clip(args[before+most], 60))))
		}
		return nil
	}
	return func(args []string) (runName, []string) {
		if *last {
			return runName{last: true}, args
		}
		return runName{text: args[0]}, args[1:]
	}
}

// find returns the id of a run. For the id of a durable run or batch, it returns the id of the run in the journal that belongs to it. If
// the name is --last, it says which run that is.
func (n runName) find(ctx context.Context, c *cli, a *app.App) (id string, err error) {
	switch {
	case n.last:
		return c.newestRun(ctx, a)
	case durable.IsID(n.text):
		if id, err = a.FindRun(ctx, n.text); errors.Is(err, journal.ErrNotFound) { // a single chain is a batch without a row of its own
			id, err = a.FindRun(ctx, (&durable.Batch{ID: n.text}).RunKey(0))
		}
		if errors.Is(err, journal.ErrNotFound) {
			err = n.notFound()
		}
		return id, err
	case len(strings.TrimPrefix(n.text, journal.IDPrefix)) < minPrefix && !n.any:
		return "", opErrorf("%s is too short to name the run: give the id, or at least its first %d characters after %s; "+
			"onecall runs lists them, and --last is the newest", fault.Quote(n.text), minPrefix, journal.IDPrefix)
	}
	runs, err := history.Find(ctx, a.Journal, n.text, maxCandidates+1)
	switch {
	case err != nil:
		return "", err
	case len(runs) == 0:
		return "", n.notFound()
	case len(runs) > 1:
		return "", n.ambiguous(runs)
	}
	return runs[0].ID, nil
}

func (n runName) notFound() error {
	f := fault.New(fault.BadRequest, "there is no run %s, or it is not kept any more: onecall runs lists them", fault.Clip(n.text, 60))
	f.Err = journal.ErrNotFound
	return opError{f}
}

// maxCandidates is how many runs the error of an ambiguous name lists.
const maxCandidates = 5

// ambiguous returns the error of a name that several runs have.
func (n runName) ambiguous(runs []history.Run) error {
	var list strings.Builder
	for i := range runs[:min(len(runs), maxCandidates)] {
		list.WriteString("\n  " + runTitle(&runs[i]))
	}
	if len(runs) > maxCandidates {
		list.WriteString("\n  …")
	}
	return opErrorf("several runs begin with %s: give more of the id%s", fault.Clip(n.text, 60), list.String())
}

// runTitle tells a person which run it is.
func runTitle(r *history.Run) string {
	title := fmt.Sprintf("%s, %s, began %s", r.ID, runStatus(r.Status, r.Code), r.Began.Local().Format(time.DateTime))
	if name := strings.Join(strings.Fields(r.Chain), " "); name != "" {
		title += ", " + fault.ClipRunes(name, 60)
	}
	return title
}

// newestRun returns the id of the run that onecall runs lists first, and says which it is.
func (c *cli) newestRun(ctx context.Context, a *app.App) (id string, err error) {
	whole := "" // not a part of another
	runs, err := history.Runs(ctx, a.Journal, &journal.Filter{Parent: &whole, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(runs) == 0 {
		return "", opErrorf("there is no run yet, or none is kept any more")
	}
	c.noticef("%s", runTitle(&runs[0]))
	return runs[0].ID, nil
}
