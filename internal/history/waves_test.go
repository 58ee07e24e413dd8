package history_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// waves returns a timeline in short: the path of each call, its wave, and how many milliseconds it waited.
func waves(t *history.Timeline) string {
	var list []string
	for _, c := range t.List {
		if c.Event != "" {
			list = append(list, fmt.Sprintf("%s(%d)", c.Event, c.Calls))
			continue
		}
		list = append(list, fmt.Sprintf("%s:%d+%g", c.At, c.Wave, c.Waited))
	}
	return strings.Join(list, " ")
}

// TestWaves: two reads run side by side, then a forEach two elements at a time, then a write after all of them; the run is resumed
// an hour later.
func TestWaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		run := p.begin("alice", "")
		read := func(position string, begins, takes int) {
			time.Sleep(time.Duration(begins) * time.Millisecond)
			p.call(run, at(get, position, `"`+position+`"`), time.Duration(takes)*time.Millisecond, read)
		}
		together := func(begin ...func()) {
			done := make(chan struct{})
			for _, f := range begin {
				go func() { f(); done <- struct{}{} }()
			}
			for range begin {
				<-done
			}
		}
		together(func() { read("1", 0, 5) }, func() { read("0", 1, 7) })
		together(func() { read("2[0]", 0, 2); read("2[2]", 1, 2) }, func() { read("2[1]", 0, 3) })
		time.Sleep(time.Millisecond)
		p.call(run, at(put, "3", `{}`), time.Millisecond, refused)
		p.failed(run, fault.FunctionFailed, 1)
		time.Sleep(time.Hour)

		record, err := p.Acquire(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		again := p.Resume(record, &journal.Start{Text: []byte(`{}`), Hash: func() string { return "" }, Writes: true})
		again.Append(journal.Event{Kind: journal.Waits, Approvals: []string{"x", "y"}, Args: []byte(`[{},{}]`)})
		again.Append(journal.Event{Kind: journal.Approved, Approvals: []string{"x", "y"}})
		time.Sleep(2 * time.Millisecond)
		p.call(again, at(put, "3", `{"mended":1}`), time.Millisecond, applied)
		p.call(again, at(get, "4", `{}`), time.Millisecond, journal.Event{Result: []byte(`1`)})
		p.failed(again, fault.Cancelled, 1)

		timeline, err := history.Of(t.Context(), p.Journal, run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "1:1+0 0:1+1 2[0]:2+0 2[1]:2+0 2[2]:2+3 3:3+1 resumed(0) waits(2) approved(2) 3:4+2 4:5+0"
		if got := waves(timeline); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if after := timeline.List[6].After; after < 3600_000 {
			t.Errorf("resumed %v ms after the beginning, want an hour", after)
		}
	})
}
