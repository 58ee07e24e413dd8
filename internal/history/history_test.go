package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// testJournal is a journal, and the runs that a test writes in it.
type testJournal struct {
	*testing.T
	*journal.Journal
	seen int // the number of runs begun
}

func newTestJournal(t *testing.T) *testJournal {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, &journal.Options{Estimate: func(result []byte) int { return len(result) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return &testJournal{t, j, 0}
}

// begin begins a run of a caller, with a name.
func (p *testJournal) begin(caller, name string) *journal.Run {
	return p.Begin(&journal.Start{Caller: caller, Chain: name, Key: "k-" + caller + name, Steps: 2,
		Hash: func() string { return "" }, Text: []byte(`{}`), Functions: []string{"store.put", "store.get"}, Writes: true, Lookup: true, Canonical: canonical})
}

// canonical returns the spelling that equal arguments share.
func canonical(args []byte) []byte {
	text, err := rawjson.AppendCanonical(nil, args)
	if err != nil {
		return args
	}
	return text
}

// call records a call of a run that takes some time.
func (p *testJournal) call(run *journal.Run, c journal.Call, took time.Duration, e journal.Event) {
	p.Helper()
	if c.Args == nil {
		c.Args = []byte(`{}`)
	}
	run.Prepare(&c)
	if err := c.Begin(); err != nil {
		p.Fatal(err)
	}
	time.Sleep(took)
	if err := c.End(&e); err != nil {
		p.Fatal(err)
	}
}

// failed ends a run as failed.
func (p *testJournal) failed(run *journal.Run, code fault.Code, tokens int) {
	p.Helper()
	if err := run.EndUnfinished(journal.Failed, code, ""); err != nil {
		p.Fatal(err)
	}
	run.Answered(tokens, 0)
}

var (
	get = journal.Call{StepPath: "0", Function: "store.get"}
	put = journal.Call{StepPath: "1[3].0", Function: "store.put", Effect: "write"}

	read    = journal.Event{Result: []byte(`"abc"`)}
	applied = journal.Event{Outcome: fault.Applied, Result: []byte(`1`), Undo: []byte(`{}`)}
	refused = journal.Event{Outcome: fault.Failed, Code: fault.FunctionFailed}
)

func TestRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		first := p.begin("alice", "nightly")
		p.call(first, get, 250*time.Microsecond, read)
		p.call(first, put, 2*time.Millisecond, applied)
		first.Answered(40, 60)
		time.Sleep(time.Second)
		second := p.begin("bob", "")
		p.call(second, put, time.Millisecond, refused)
		p.failed(second, fault.FunctionFailed, 7)

		runs, err := history.Runs(t.Context(), p.Journal, &journal.Filter{})
		if err != nil || len(runs) != 2 || runs[0].ID != second.ID() || runs[1].ID != first.ID() {
			t.Fatalf("runs %+v, want the newest first: %v", runs, err)
		}
		for i, want := range []history.Run{
			{ID: second.ID(), Status: journal.Failed, Code: fault.FunctionFailed, Key: "k-bob", Caller: "bob",
				Began: second.Began(), Millis: 1, Steps: 2, Calls: 1, Writes: 1, Tokens: 7},
			{ID: first.ID(), Status: journal.OK, Chain: "nightly", Key: "k-alicenightly", Caller: "alice",
				Began: first.Began(), Millis: 2.25, Steps: 2, Calls: 2, Writes: 1, Tokens: 40, Stored: 60},
		} {
			want.Functions = []string{"store.put", "store.get"}
			if got := fmt.Sprintf("%+v", runs[i]); got != fmt.Sprintf("%+v", want) {
				t.Errorf("got %s\nwant %+v", got, want)
			}
		}
		for name, filter := range map[string]journal.Filter{
			"caller": {Callers: []string{"alice"}}, "chain": {Chains: []string{"nightly"}}, "status": {Status: journal.OK}, "until": {Until: second.Began()},
		} {
			runs, err := history.Runs(t.Context(), p.Journal, &filter)
			if err != nil || len(runs) != 1 || runs[0].ID != first.ID() {
				t.Errorf("filter by %s: got %+v, %v, want only %s", name, runs, err, first.ID())
			}
		}
	})
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		run := p.begin("alice", "")
		time.Sleep(5 * time.Millisecond)
		p.call(run, get, 2*time.Millisecond, read)
		p.call(run, put, 3*time.Millisecond, applied)
		retried := journal.Call{StepPath: "2", Function: "store.put", Effect: "write", Args: []byte(`{"k":2}`)}
		run.Prepare(&retried)
		for range 3 {
			if err := retried.Begin(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			if err := retried.End(&journal.Event{Outcome: fault.NotSent, Code: fault.Unavailable}); err != nil {
				t.Fatal(err)
			}
		}
		undoes := journal.Call{StepPath: "1[3].0", Function: "store.remove", Effect: "destroy", Undoes: run.Past().Calls()[1].Ended}
		p.call(run, undoes, 0, applied)
		hanging := journal.Call{StepPath: "3", Function: "store.put", Effect: "write", Args: []byte(`{"k":3}`)}
		run.Prepare(&hanging)
		if err := hanging.Begin(); err != nil {
			t.Fatal(err)
		}
		want := []history.Call{
			{At: "0", Function: "store.get", Status: "ok", Wave: 1, After: 5, Waited: 5, Millis: 2, Bytes: 5, Tokens: 5},
			{At: "1[3].0", Function: "store.put", Status: "ok", Outcome: fault.Undone, Wave: 2, After: 7, Millis: 3, Bytes: 1, Tokens: 1},
			{At: "2", Function: "store.put", Status: "failed", Outcome: fault.NotSent, Code: fault.Unavailable, Wave: 3, After: 12, Millis: 1, Retries: 2},
			{At: "1[3].0", Function: "store.remove", Status: "ok", Outcome: fault.Applied, Wave: 4, After: 13, Bytes: 1, Tokens: 1, Undoes: true},
			{At: "3", Function: "store.put", Status: "running", Outcome: fault.SentUnknown, Wave: 5, After: 13},
		}
		check := func(want []history.Call) {
			t.Helper()
			timeline, err := history.Of(t.Context(), p.Journal, run.ID(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(timeline.List, want) {
				t.Errorf("got %+v\nwant %+v", timeline.List, want)
			}
		}
		check(want)
		p.failed(run, fault.Cancelled, 0)
		want[4].Status = "failed" // the run is no longer running
		check(want)
	})
}

// TestTimelineOfAssumedCall: a call whose outcome a caller has assumed is marked as such.
func TestTimelineOfAssumedCall(t *testing.T) {
	t.Parallel()
	p := newTestJournal(t)
	run := p.begin("alice", "")
	p.call(run, put, 0, journal.Event{Outcome: fault.SentUnknown, Code: fault.Timeout})
	run.Append(journal.Event{Kind: journal.Assumed, Of: run.Past().Calls()[0].N, Outcome: fault.Applied, Result: []byte(`1`)})
	p.failed(run, fault.Timeout, 0)
	timeline, err := history.Of(t.Context(), p.Journal, run.ID(), nil)
	if err != nil || len(timeline.List) != 1 {
		t.Fatalf("got timeline %+v, %v, want one entry", timeline, err)
	}
	if c := timeline.List[0]; !c.Assumed || c.Status != "ok" || c.Outcome != fault.Applied || c.Code != "" {
		t.Errorf("got call %+v, want assumed, ok, applied", c)
	}
}

// TestTimelineOfOtherCaller: a run of another caller counts as missing. The timeline of an empty run has an empty list.
func TestTimelineOfOtherCaller(t *testing.T) {
	t.Parallel()
	p := newTestJournal(t)
	run := p.begin("alice", "")
	p.failed(run, fault.Internal, 0)
	bob, alice := "bob", "alice"
	if _, err := history.Of(t.Context(), p.Journal, run.ID(), &bob); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Of by another caller: %v, want ErrNotFound", err)
	}
	if _, err := history.Of(t.Context(), p.Journal, "run_none", nil); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Of an unknown run: %v, want ErrNotFound", err)
	}
	if timeline, err := history.Of(t.Context(), p.Journal, run.ID(), &alice); err != nil || timeline.List == nil || len(timeline.List) != 0 {
		t.Errorf("Of by the caller: got %+v, %v, want an empty list", timeline, err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	p := newTestJournal(t)
	run := p.begin("alice", "")
	p.failed(run, fault.Internal, 0)
	id := run.ID()
	for _, prefix := range []string{id, id[:12], strings.TrimPrefix(id, journal.IDPrefix), strings.TrimPrefix(id, journal.IDPrefix)[:6]} {
		if runs, err := history.Find(t.Context(), p.Journal, prefix, 2); len(runs) != 1 || runs[0].ID != id || err != nil {
			t.Errorf("Find(%s) = %+v, %v, want %s", prefix, runs, err, id)
		}
	}
	if runs, err := history.Find(t.Context(), p.Journal, "none", 2); len(runs) != 0 || err != nil {
		t.Errorf("Find of an unknown run = %+v, %v, want none", runs, err)
	}
	again := p.begin("bob", "")
	p.failed(again, fault.Internal, 0)
	if runs, err := history.Find(t.Context(), p.Journal, "", 2); len(runs) != 2 || runs[0].ID != again.ID() || err != nil {
		t.Errorf("Find of all = %+v, %v, want both, newest first", runs, err)
	}
}
