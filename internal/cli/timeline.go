package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// readTimeline reads a run, with arguments and results if the configuration shows them.
func (c *cli) readTimeline(ctx context.Context, a *app.App, id string) (*history.Timeline, error) {
	t, err := history.Of(ctx, a.Journal, id, nil)
	if errors.Is(err, journal.ErrNotFound) {
		err = runName{text: id}.notFound()
	}
	if err == nil && a.ShowsValues() {
		t.Show(a.Scrubber())
	}
	return t, err
}

// showRun writes the timeline of a run, with at most limit of its parts, or follows the run.
func (c *cli) showRun(ctx context.Context, a *app.App, name runName, limit int, asJSON, follow bool) error {
	id, err := name.find(ctx, c, a)
	if err != nil {
		return err
	}
	t, err := c.readTimeline(ctx, a, id)
	if err == nil && !follow {
		err = t.AddParts(ctx, a.Journal, limit)
	}
	switch {
	case err != nil:
		return err
	case follow:
		return c.followRun(ctx, a, t.ID, asJSON)
	case asJSON:
		return c.writeValue(t)
	}
	if err := c.writeRuns([]history.Run{t.Run}); err != nil {
		return err
	}
	if len(t.NotOK) > 0 {
		if err := c.table("\n"+runHeader, len(t.NotOK), func(i int) string { return runRow(&t.NotOK[i]) }); err != nil {
			return err
		}
	}
	if t.Parts != nil && len(t.List) == 0 {
		if durable.IsID(t.Key) {
			c.noticef("onecall-temporal resume %s writes the answers, and first runs what failed again", t.Key)
		}
		return nil
	}
	err = c.table(callHeader, len(t.List), func(i int) string { return callRow(&t.List[i]) })
	if err != nil || !a.ShowsValues() {
		return err
	}
	const maxRunes = 100 // the rest of a value is in --json
	return c.table("\nAT\tARGS\tRESULT", len(t.List), func(i int) string {
		v := cmp.Or(t.List[i].Values, &history.Values{})
		return fmt.Sprintf("%s\t%s\t%s", t.List[i].At, fault.ClipRunes(string(v.Args), maxRunes), fault.ClipRunes(string(v.Result), maxRunes))
	})
}

const callHeader = "AT\tFUNCTION\tSTATUS\tWAVE\tAFTER\tWAITED\tTOOK\tBYTES\tTOKENS"

func callRow(call *history.Call) string {
	if call.Event != "" {
		what := call.Event
		if call.Calls > 0 {
			what += fmt.Sprintf(": %d calls", call.Calls)
		}
		return fmt.Sprintf("\t(%s)\t\t\t%.1f ms\t\t\t\t", what, call.After)
	}
	status := cmp.Or(string(call.Outcome), call.Status)
	if call.Retries > 0 {
		status += fmt.Sprintf(", %d retries", call.Retries)
	}
	name := call.Function
	if call.Undoes {
		name += " (undo)"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%.1f ms\t%s\t%.1f ms\t%d\t%d", call.At, name, status, call.Wave, call.After,
		formatMillis(call.Waited), call.Millis, call.Bytes, call.Tokens)
}

// followRun writes the events of a run, past and new, line by line.
func (c *cli) followRun(ctx context.Context, a *app.App, id string, asJSON bool) error {
	write := c.lineWriter(callHeader, []int{8, 28, 22, 4, 12, 10, 10, 8, 6}, asJSON)
	return followError(ctx, history.Follow(ctx, func(ctx context.Context) (*history.Timeline, error) { return c.readTimeline(ctx, a, id) },
		func(call *history.Call) error { return write(call, callRow(call)) }))
}

// followRuns writes runs and their changes, line by line.
func (c *cli) followRuns(ctx context.Context, a *app.App, f *journal.Filter, asJSON bool) error {
	write := c.lineWriter(runHeader, []int{30, 24, 19, 30, 12, 5, 6, 6}, asJSON)
	return followError(ctx, history.FollowRuns(ctx, a.Journal, f, func(r *history.Run) error { return write(r, runRow(r)) }))
}

// followError returns the error of a follow, which an interrupt may have ended.
func followError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	return err
}

// lineWriter returns a function that writes values one by one: as JSON, or as rows of these column widths under a header.
func (c *cli) lineWriter(head string, widths []int, asJSON bool) func(value any, row string) error {
	row := func(cells string) error {
		var line strings.Builder
		for i, cell := range strings.Split(cells, "\t") {
			fmt.Fprintf(&line, "%-*s  ", widths[i], textfile.Printable(cell))
		}
		return c.writeRows([]byte(strings.TrimRight(line.String(), " ") + "\n"))
	}
	first := !asJSON
	return func(value any, cells string) error {
		if asJSON {
			return c.writeValue(value)
		}
		if first {
			if err := row(head); err != nil {
				return err
			}
			first = false
		}
		return row(cells)
	}
}
