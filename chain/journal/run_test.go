package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// openJournal returns a journal over a driver that an earlier journal may have written to.
func openJournal(t *testing.T, d journal.Driver) *journal.Journal {
	t.Helper()
	j, err := journal.New(d, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func start() *journal.Start {
	return &journal.Start{Hash: func() string { return "" }, Text: []byte(`{}`), Writes: true, Lookup: true}
}

// TestValues: arguments and results of a successful run are stored if Options.Values is set, and not otherwise.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, values := range []bool{false, true} {
		j, err := journal.New(&journal.Memory{}, &journal.Options{Values: values})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		run := j.Begin(start())
		for i, c := range []*journal.Call{put(), {StepPath: "1", Function: "get"}} {
			c.Shown = []byte(`"shown"`)
			beginCall(t, run, c)
			if err := c.End(&journal.Event{Result: []byte(`"result"`), Outcome: []fault.Outcome{fault.Applied, ""}[i]}); err != nil {
				t.Fatal(err)
			}
		}
		run.Answered(1, 1)
		past, err := j.Read(t.Context(), run.ID(), nil)
		for err != nil || past.Row.Status != journal.OK { // its end is written in the background
			if _, err := j.List(t.Context(), &journal.Filter{}); err != nil {
				t.Fatal(err)
			}
			past, err = j.Read(t.Context(), run.ID(), nil)
		}
		for _, c := range past.Calls() {
			if shown := string(c.Args) == `"shown"` && string(c.Result) == `"result"`; shown != values || !values &&
				(c.Args != nil || c.Result != nil) {
				t.Errorf("Values %t: call of %s stored with arguments %s and result %s, want them: %t", values, c.Function, c.Args, c.Result, values)
			}
		}
	}
}

// TestSentCount: a run's writes are those that were sent or may have been, and so are its undos.
func TestSentCount(t *testing.T) {
	t.Parallel()
	j := openJournal(t, &journal.Memory{})
	run := j.Begin(start())
	for _, outcome := range []fault.Outcome{fault.NotSent, fault.SentUnknown, fault.Failed, fault.Applied, fault.NotSent} {
		for _, c := range []*journal.Call{put(), undo(1)} {
			if err := beginCall(t, run, c).End(&journal.Event{Outcome: outcome}); err != nil {
				t.Fatal(err)
			}
		}
	}
	beginCall(t, run, put())
	past, err := j.Read(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if row := past.Row; row.Calls != 11 || row.Writes != 4 || row.Undos != 3 {
		t.Errorf("%d calls, %d writes, %d undos, want 11, 4 (one goes on) and 3", row.Calls, row.Writes, row.Undos)
	}
}

// resumeRun resumes a run.
func resumeRun(t *testing.T, j *journal.Journal, id string) *journal.Run {
	t.Helper()
	past, err := j.Acquire(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j.Resume(past, start())
}

// beginCall returns a call whose Begin was recorded.
func beginCall(t *testing.T, run *journal.Run, c *journal.Call) *journal.Call {
	t.Helper()
	c.Args = []byte(`{}`)
	run.Prepare(c)
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	return c
}

// put returns a call that writes; undo returns the call that undoes it.
func put() *journal.Call { return &journal.Call{StepPath: "0", Function: "put", Effect: "write"} }

func undo(ended int) *journal.Call {
	return &journal.Call{StepPath: "0", Function: "remove", Effect: "write", Undoes: ended}
}

// endCall records that a call was applied.
func endCall(t *testing.T, c *journal.Call) {
	t.Helper()
	if err := c.End(&journal.Event{Outcome: fault.Applied, Result: []byte("1"), Undo: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
}

func outcomes(run *journal.Run) (list []string) {
	for _, c := range run.Past().Calls() {
		list = append(list, fmt.Sprint(c.Function, " ", c.Outcome))
	}
	return list
}

func wantOutcomes(t *testing.T, run *journal.Run, want ...string) {
	t.Helper()
	if got := outcomes(run); !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
}

// numberOf returns the number of the event that ended a function's call.
func numberOf(t *testing.T, run *journal.Run, function string) int {
	t.Helper()
	for _, c := range run.Past().Calls() {
		if c.Function == function {
			return c.Ended
		}
	}
	t.Fatalf("the run lacks a call of %s", function)
	return 0
}

// TestCallRepeatedAfterUndo: a call that was undone and made again is applied, even if the process was killed in between.
func TestCallRepeatedAfterUndo(t *testing.T) {
	t.Parallel()
	d := &journal.Memory{}
	j := openJournal(t, d)
	run := j.Begin(start())
	endCall(t, beginCall(t, run, put()))
	endCall(t, beginCall(t, run, undo(numberOf(t, run, "put"))))
	wantOutcomes(t, run, "put undone", "remove applied")
	j.Close() // killed before it could record that all was undone

	run = resumeRun(t, openJournal(t, d), run.ID())
	wantOutcomes(t, run, "put undone", "remove applied")
	endCall(t, beginCall(t, run, put()))
	wantOutcomes(t, run, "remove applied", "put applied")
}

// TestKeyLifeCountsFromFirstAttempt: however often a call is retried, the life of its idempotency key counts from the first attempt.
func TestKeyLifeCountsFromFirstAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &journal.Memory{}
		j := openJournal(t, d)
		run := j.Begin(start())
		c := put()
		c.Args, c.KeyFor = []byte(`{}`), time.Minute
		run.Prepare(c)
		try := func() {
			t.Helper()
			if err := c.Begin(); err != nil {
				t.Fatal(err)
			}
			if err := c.End(&journal.Event{Outcome: fault.SentUnknown, Code: fault.Timeout}); err != nil {
				t.Fatal(err)
			}
		}
		wantKeyHolds := func(want bool) {
			t.Helper()
			if got := run.Past().Calls()[0].KeyHolds(); got != want {
				t.Errorf("KeyHolds returns %v, want %v", got, want)
			}
		}
		try()
		time.Sleep(40 * time.Second)
		try()
		wantKeyHolds(true)
		time.Sleep(19 * time.Second)
		wantKeyHolds(true)
		time.Sleep(2 * time.Second)
		try()
		wantKeyHolds(false)
		j.Close()

		run = resumeRun(t, openJournal(t, d), run.ID())
		wantKeyHolds(false)
	})
}

// TestEventNumbers: the end of a call that is recorded late, after another process has taken over the run, has a unique event number, so
// an undo refers to the right call.
func TestEventNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &journal.Memory{}
		j := openJournal(t, d)
		run := j.Begin(start())
		late := beginCall(t, run, put())
		read := beginCall(t, run, &journal.Call{StepPath: "1", Function: "get"})
		if err := read.End(&journal.Event{Result: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil { // its lease is free, as after a network failure
			t.Fatal(err)
		}

		other := resumeRun(t, openJournal(t, d), run.ID())
		endCall(t, beginCall(t, other, &journal.Call{StepPath: "2", Function: "put2", Effect: "write"}))
		if err := other.EndUnfinished(journal.Failed, fault.Internal, ""); err != nil {
			t.Fatal(err)
		}
		other.Answered(0, 0)
		if err := late.End(&journal.Event{Outcome: fault.Applied, Result: []byte("1"), Undo: []byte(`{}`)}); err == nil {
			t.Error("End succeeded with a lost lease")
		}
		time.Sleep(2 * time.Second) // its end is recorded late

		run = resumeRun(t, openJournal(t, d), run.ID())
		wantOutcomes(t, run, "put applied", "get ", "put2 applied")
		endCall(t, beginCall(t, run, undo(numberOf(t, run, "put"))))
		wantOutcomes(t, run, "put undone", "get ", "put2 applied", "remove applied")
	})
}

// TestRehearsalMatchesRunningCalls: a call that is under way during a rehearsal belongs to the chain and does not conflict with it; a call
// that was under way when the process was killed does.
func TestRehearsalMatchesRunningCalls(t *testing.T) {
	t.Parallel()
	d := &journal.Memory{}
	j := openJournal(t, d)
	run := j.Begin(start())
	beginCall(t, run, put())
	if list := run.Rehearse().Unmatched(); len(list) != 0 {
		t.Errorf("unmatched call under way: %+v, want none", list[0])
	}
	j.Close()

	run = resumeRun(t, openJournal(t, d), run.ID())
	if list := run.Rehearse().Unmatched(); len(list) != 1 || list[0].Function != "put" {
		t.Errorf("unmatched after a kill: %+v, want put", list)
	}
}

// TestMatched: AllMatched is true as soon as no call is unmatched, in whichever order calls are made again or assumed, and stays true while
// further calls are made.
func TestMatched(t *testing.T) {
	t.Parallel()
	d := &journal.Memory{}
	j := openJournal(t, d)
	run := j.Begin(start())
	endCall(t, beginCall(t, run, put()))
	endCall(t, beginCall(t, run, &journal.Call{StepPath: "1", Function: "put2", Effect: "write"}))
	beginCall(t, run, &journal.Call{StepPath: "2", Function: "put3", Effect: "write"})
	j.Close()

	run = resumeRun(t, openJournal(t, d), run.ID())
	wantUnmatched := func(unmatched int) {
		t.Helper()
		if list := run.Unmatched(); len(list) != unmatched || run.AllMatched() != (unmatched == 0) {
			t.Errorf("%d unmatched calls, want %d; AllMatched returns %t", len(list), unmatched, run.AllMatched())
		}
	}
	again := func(function string) {
		c := &journal.Call{Function: function, Effect: "write", Args: []byte(`{}`)}
		run.Prepare(c)
		c.MatchPrevious(true)
	}
	wantUnmatched(3)
	again("put2")
	wantUnmatched(2)
	again("put")
	wantUnmatched(1)
	run.Append(journal.Event{Kind: journal.Assumed, Of: run.Past().Calls()[2].N, Outcome: fault.Applied})
	wantUnmatched(0)
	endCall(t, beginCall(t, run, &journal.Call{StepPath: "4", Function: "put4", Effect: "write"}))
	wantUnmatched(0)
}

// busyOnce is a driver that fails the first write that releases a lease.
type busyOnce struct {
	journal.Memory
	failed bool
}

func (d *busyOnce) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	if !d.failed && slices.ContainsFunc(list, func(w journal.Write) bool { return w.Release && w.Row == nil }) {
		d.failed = true
		return nil, errors.New("the database is locked")
	}
	return d.Memory.Write(ctx, list)
}

// TestReleaseIsRetried: a lease that could not be released is free as soon as the database works again.
func TestReleaseIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := openJournal(t, &busyOnce{})
		run := j.Begin(start())
		endCall(t, beginCall(t, run, put()))
		if err := run.EndUnfinished(journal.Failed, fault.Internal, ""); err != nil {
			t.Fatal(err)
		}
		record, err := j.Acquire(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		j.Release(record)
		if _, err := j.Acquire(t.Context(), run.ID(), nil); !journal.IsBusy(err) {
			t.Errorf("Acquire before the retry: %v, want busy", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := j.Acquire(t.Context(), run.ID(), nil); err != nil {
			t.Error(err)
		}
	})
}

// faultyDriver is a driver that can be down, or carry out writes and lose their confirmation.
type faultyDriver struct {
	journal.Memory
	lost, down atomic.Bool
}

func (d *faultyDriver) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	if d.down.Load() {
		return nil, errors.New("the connection was refused")
	}
	refused, err := d.Memory.Write(ctx, list)
	if d.lost.Load() {
		return nil, errors.New("the connection was reset")
	}
	return refused, err
}

// TestLeaseIsFreeAfterFailure: if the database fails while a run with a key begins or ends, no process keeps the lease of the run.
func TestLeaseIsFreeAfterFailure(t *testing.T) {
	t.Parallel()
	keyed := start()
	keyed.Key = "k"
	acquired := func(t *testing.T, j *journal.Journal) *journal.Past {
		t.Helper()
		time.Sleep(2 * time.Second)
		id, err := j.Find(t.Context(), "", "", "k")
		if err != nil {
			t.Fatal(err)
		}
		past, err := j.Acquire(t.Context(), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		return past
	}
	t.Run("begins", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := &faultyDriver{}
			d.lost.Store(true)
			j := openJournal(t, d)
			if err := j.Begin(keyed).Claim(); err == nil {
				t.Fatal("Claim succeeded without a confirmation")
			}
			d.lost.Store(false)
			if status := acquired(t, j).Row.Status; status != journal.Running {
				t.Errorf("status %s, want running", status)
			}
		})
	})
	t.Run("ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := &faultyDriver{}
			j := openJournal(t, d)
			run := j.Begin(keyed)
			if err := run.Claim(); err != nil {
				t.Fatal(err)
			}
			d.down.Store(true)
			run.Answered(1, 1)
			d.down.Store(false)
			if status := acquired(t, j).Row.Status; status != journal.OK {
				t.Errorf("status %s, want ok", status)
			}
		})
	})
}

// TestLeaseIsKeptByWhoGoesOn: a run with a key that a change of state begins keeps its lease if only the confirmation of the change was lost.
func TestLeaseIsKeptByWhoGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keyed := start()
		keyed.Key = "k"
		d := &faultyDriver{}
		d.lost.Store(true)
		j := openJournal(t, d)
		run := j.Begin(keyed)
		c := &journal.Call{StepPath: "0", Function: "put", Effect: "write", Commits: true}
		beginCall(t, run, c)
		ctx := journal.WithCommit(t.Context(), c, func(raw []byte, err error) journal.Event {
			return journal.Event{Result: raw, Outcome: fault.OutcomeOf(err)}
		})
		_, err := j.ChangeState(ctx, "", journal.StateKey{Name: "n"}, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
			return &journal.StateChange{Value: []byte(`1`), Expires: now.Now.Add(time.Hour)}, []byte(`1`), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		d.lost.Store(false)
		time.Sleep(2 * time.Second)
		if _, err := j.Acquire(t.Context(), run.ID(), nil); !journal.IsBusy(err) {
			t.Errorf("Acquire while the run goes on: %v, want busy", err)
		}
	})
}

// gatedDriver is a driver whose writes wait until its gate is open.
type gatedDriver struct {
	journal.Memory
	gate chan struct{}
}

func (d *gatedDriver) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	<-d.gate
	return d.Memory.Write(ctx, list)
}

// readMany makes a thousand reads, so that a run holds too many events.
func readMany(t *testing.T, run *journal.Run) {
	t.Helper()
	for range 1000 {
		if err := beginCall(t, run, &journal.Call{StepPath: "0", Function: "get"}).End(&journal.Event{}); err != nil {
			t.Error(err)
		}
	}
}

// TestLongReadOnlyRun: a run that holds too many events and only reads can be resumed although the queue was full meanwhile. If the
// database failed, its end fails for this reason.
func TestLongReadOnlyRun(t *testing.T) {
	t.Parallel()
	onlyReads := &journal.Start{Hash: func() string { return "" }, Text: []byte(`{}`)}
	t.Run("full queue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := &gatedDriver{gate: make(chan struct{})}
			j := openJournal(t, d)
			for range 10_000 { // more than the queue and the batch that waits at the gate hold
				j.Begin(onlyReads).Answered(0, 0)
			}
			run := j.Begin(onlyReads)
			ended := make(chan error)
			go func() {
				readMany(t, run)
				ended <- run.EndUnfinished(journal.Failed, fault.Timeout, "")
			}()
			synctest.Wait()
			close(d.gate)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			past, err := j.Acquire(t.Context(), run.ID(), nil)
			if err != nil || string(past.Chain) != "{}" || len(past.Calls()) != 1000 {
				t.Errorf("run %+v, %v; want its chain and 1000 calls", past, err)
			}
		})
	})
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := &faultyDriver{}
			j := openJournal(t, d)
			run := j.Begin(onlyReads)
			d.down.Store(true)
			readMany(t, run)
			synctest.Wait()
			time.Sleep(time.Second)
			d.down.Store(false)
			readMany(t, run)
			if err := run.EndUnfinished(journal.Failed, fault.Timeout, ""); err == nil || errors.Is(err, journal.ErrTaken) {
				t.Errorf("EndUnfinished after a failure: %v, want the failure", err)
			}
			run.Answered(0, 0)
		})
	})
}

// TestFailuresOfResumedRuns: a run counts as failed if its last end is a failure, in whichever states it was before.
func TestFailuresOfResumedRuns(t *testing.T) {
	t.Parallel()
	const ok, failed, waiting = journal.OK, journal.Failed, journal.Waiting
	for _, ends := range [][]journal.Status{
		{ok}, {failed}, {waiting}, {failed, ok}, {failed, failed}, {waiting, ok}, {waiting, failed},
		{failed, waiting, failed}, {failed, waiting, ok}, {failed, waiting, waiting, ok}, {waiting, failed, waiting, failed, ok},
	} {
		j := openJournal(t, &journal.Memory{})
		run := j.Begin(start())
		for i, status := range ends {
			if i > 0 {
				run = resumeRun(t, j, run.ID())
			}
			if status != ok {
				if err := run.EndUnfinished(status, "", ""); err != nil {
					t.Fatal(err)
				}
			}
			run.Answered(0, 0)
		}
		days, err := j.Days(t.Context(), &journal.Filter{})
		if err != nil || len(days) != 1 {
			t.Fatalf("days %+v, %v; want one", days, err)
		}
		want := int64(0)
		if ends[len(ends)-1] == failed {
			want = 1
		}
		if days[0].Count != 1 || days[0].Failures != want {
			t.Errorf("%v: %d failures of %d runs, want %d of 1", ends, days[0].Failures, days[0].Count, want)
		}
	}
}
