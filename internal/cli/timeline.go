package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/history"
)

// readTimeline reads a run, with arguments and results if the configuration shows them.
func (c *cli) readTimeline(ctx context.Context, a *app.App, id string) (*history.Timeline, error) {
	return c.readAgain(ctx, a, id, history.NewReader(a.Journal, id, nil))
}

// readAgain is readTimeline by a reader, which may have read the run before.
func (c *cli) readAgain(ctx context.Context, a *app.App, id string, r *history.Reader) (*history.Timeline, error) {
	t, err := r.Read(ctx)
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
		if err := errors.Join(c.writeText([]byte{'\n'}), c.writeRuns(t.NotOK)); err != nil {
			return err
		}
	}
	if t.Parts != nil && len(t.List) == 0 {
		if durable.IsID(t.Key) {
			c.noticef("onecall-temporal resume %s writes the answers, and first runs what failed again", t.Key)
		}
		return nil
	}
	calls := &table{columns: callColumns, rows: make([]row, len(t.List))}
	for i := range t.List {
		calls.rows[i] = callRow(&t.List[i])
	}
	err = errors.Join(c.writeText([]byte{'\n'}), c.writeTable(calls))
	if err != nil || !a.ShowsValues() {
		return err
	}
	return errors.Join(c.writeText([]byte{'\n'}), c.writeTable(valueTable(t.List)))
}

// valueTable lists the arguments and results of calls. The rest of a long value is in --json.
func valueTable(calls []history.Call) *table {
	const maxRunes = 100
	t := &table{columns: []column{{name: "AT"}, {name: "ARGS", least: 20}, {name: "RESULT", least: 20}}}
	for i := range calls {
		v := cmp.Or(calls[i].Values, &history.Values{})
		t.rows = append(t.rows, row{cells: []string{calls[i].At, fault.ClipRunes(string(v.Args), maxRunes),
			fault.ClipRunes(string(v.Result), maxRunes)}})
	}
	return t
}

// reason returns the code and the message of a failure in one line; the message may be unknown.
func reason(code fault.Code, message string) string {
	if message == "" {
		return string(code)
	}
	return string(code) + ": " + strings.Join(strings.Fields(message), " ")
}

var callColumns = []column{
	{name: "AT", width: 8},
	{name: "FUNCTION", width: 28, least: 20},
	{name: "STATUS", width: 12, style: statusColor},
	{name: "TOOK", width: 7},
	{name: "AFTER", width: 7},
	{name: "~TOKENS", width: 7},
	{name: "WAVE", extra: true},
	{name: "WAITED", width: 7, extra: true},
	{name: "BYTES", width: 8, extra: true},
}

func callRow(call *history.Call) row {
	if call.Event != "" {
		what := "(" + call.Event + ")"
		if call.Calls > 0 {
			what = fmt.Sprintf("(%s: %s)", call.Event, plural(int64(call.Calls), "call"))
		}
		if call.By != "" {
			what = fmt.Sprintf("(%s by %s: %s)", call.Event, call.By, plural(int64(call.Calls), "call"))
		}
		r := row{cells: []string{"", what, "", "", figure.Millis(call.After), "", "", "", ""}}
		if call.Places != "" {
			r.notes = append(r.notes, "at "+call.Places)
		}
		if call.Code != "" {
			r.notes = append(r.notes, reason(call.Code, call.Message))
		} else if text := cmp.Or(call.Reason, call.Message); text != "" {
			r.notes = append(r.notes, text)
		}
		return r
	}
	status := cmp.Or(string(call.Outcome), call.Status)
	if call.Retries > 0 {
		status += ", " + pluralOf(int64(call.Retries), "retry", "retries")
	}
	name := call.Function
	if call.Undoes {
		name = "undo: " + name // first, since a terminal cuts the end
	}
	r := row{cells: []string{call.At, name, status, figure.Millis(call.Millis), figure.Millis(call.After), strconv.Itoa(call.Tokens),
		strconv.Itoa(call.Wave), knownMillis(call.Waited), strconv.Itoa(call.Bytes)}}
	if call.Code != "" {
		r.notes = []string{reason(call.Code, call.Message)}
	}
	return r
}

// followRun writes the events of a run, past and new, line by line.
func (c *cli) followRun(ctx context.Context, a *app.App, id string, asJSON bool) error {
	write := c.lineWriter(callColumns, asJSON)
	r := history.NewReader(a.Journal, id, nil)
	return followError(ctx, history.Follow(ctx, func(ctx context.Context) (*history.Timeline, error) { return c.readAgain(ctx, a, id, r) },
		func(call *history.Call) error { return write(call, callRow(call)) }))
}

// followRuns writes runs and their changes, line by line. Lines stay, so they say the time at which a run began.
func (c *cli) followRuns(ctx context.Context, a *app.App, f *journal.Filter, asJSON bool) error {
	write := c.lineWriter(runColumns, asJSON)
	clock := func(began time.Time) string { return began.Local().Format(time.TimeOnly) }
	return followError(ctx, history.FollowRuns(ctx, a.Journal, f, func(r *history.Run) error { return write(r, c.runRow(r, clock)) }))
}

// followError returns the error of a follow, which an interrupt may have ended.
func followError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	return err
}

// lineWriter returns a function that writes values one by one: as JSON, or as rows under a header.
func (c *cli) lineWriter(columns []column, asJSON bool) func(value any, r row) error {
	t, p := &table{columns: columns}, c.outPage()
	widths := p.widths(t)
	first := true
	return func(value any, r row) error {
		if asJSON {
			return c.writeValue(value)
		}
		t.rows = []row{r}
		t.printable()
		text := p.line(t, &t.rows[0], widths)
		if first {
			text = p.header(t, widths) + text
			first = false
		}
		return c.writeText([]byte(text))
	}
}
