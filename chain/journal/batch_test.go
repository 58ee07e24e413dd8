package journal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestBatch: one process begins a batch, others run its parts and end it.
func TestBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &journal.Memory{}
		client, worker := openJournal(t, store), openJournal(t, store)
		s := &journal.Start{Caller: "ada", Scope: "s", Key: "batch-7", Chain: "nightly", Steps: 3}
		id, err := client.BeginBatch(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := worker.BeginBatch(t.Context(), s); again != id || err != nil {
			t.Errorf("BeginBatch again returns %s, want %s: %v", again, id, err)
		}
		for i := range 3 {
			segment := worker.Begin(&journal.Start{Caller: "ada", Scope: "s", Parent: id, Chain: "nightly", Hash: func() string { return "" },
				Text: []byte(`{}`)})
			if i == 1 {
				if err := segment.EndUnfinished(journal.Failed, fault.Timeout, ""); err != nil {
					t.Fatal(err)
				}
			}
			segment.Answered(1, 0)
		}
		wantCounts(t, worker, id, journal.Parts{journal.OK: 2, journal.Failed: 1})
		wantBatch := func(want journal.Status, took time.Duration) {
			t.Helper()
			past, err := worker.Read(t.Context(), id, &s.Caller)
			if err != nil || past.Row.Status != want || !past.Row.Batch || past.Row.Took != took || past.Row.Scope != "s" ||
				past.Row.CallersKey() != "batch-7" {
				t.Errorf("batch %+v, want %s: %v", past, want, err)
			}
		}
		wantBatch(journal.Running, 0)
		time.Sleep(20 * time.Hour)
		if err := worker.SetBatchStatus(t.Context(), id, journal.Running, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour) // its parts have expired by now, but the batch has not
		wantBatch(journal.Running, 20*time.Hour)
		wantCounts(t, worker, id, nil)
		for range 2 { // a process that does not know whether it was done does it again
			if err := worker.SetBatchStatus(t.Context(), id, journal.Failed, fault.Cancelled); err != nil {
				t.Fatal(err)
			}
		}
		wantBatch(journal.Failed, 40*time.Hour)
		days, err := client.Days(t.Context(), &journal.Filter{})
		if err != nil || len(days) != 1 || days[0].Count != 3 {
			t.Errorf("days %+v, want only the three parts: %v", days, err)
		}
	})
}

func wantCounts(t *testing.T, j *journal.Journal, id string, want journal.Parts) {
	t.Helper()
	if got, err := j.Parts(t.Context(), []string{id}); err != nil || !maps.Equal(got[id], want) {
		t.Errorf("parts %v, %v; want %v", got, err, want)
	}
}

// TestNoBatch: an ordinary run is not accepted as a batch.
func TestNoBatch(t *testing.T) {
	t.Parallel()
	j := openJournal(t, &journal.Memory{})
	s := start()
	s.Key = "k"
	run := j.Begin(s)
	if err := errors.Join(run.Claim(), run.EndUnfinished(journal.Failed, fault.Timeout, "")); err != nil {
		t.Fatal(err)
	}
	if id, err := j.BeginBatch(t.Context(), s); !errors.Is(err, journal.ErrTaken) {
		t.Errorf("BeginBatch with the key of a run: %s, %v, want ErrTaken", id, err)
	}
	for _, id := range []string{run.ID(), "run_none"} {
		if err := j.SetBatchStatus(t.Context(), id, journal.OK, ""); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("SetBatchStatus(%s): %v, want ErrNotFound", id, err)
		}
	}
	past, err := j.Acquire(t.Context(), run.ID(), nil)
	if err != nil || past.Row.Status != journal.Failed {
		t.Errorf("run %+v, %v; want status failed", past, err)
	}
}

// ExampleJournal_BeginBatch begins a batch, runs a part of it and ends it.
func ExampleJournal_BeginBatch() {
	ctx := context.Background()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		panic(err)
	}
	defer j.Close()
	batch, err := j.BeginBatch(ctx, &journal.Start{Caller: "ada", Chain: "nightly", Key: "nightly 2026-03-01"})
	if err != nil {
		panic(err)
	}
	segment := j.Begin(&journal.Start{Caller: "ada", Parent: batch, Hash: func() string { return "" }}) // or Engine.Run with Caller.Parent
	segment.Answered(0, 0)
	counts, err := j.Parts(ctx, []string{batch})
	if err != nil {
		panic(err)
	}
	status := journal.OK
	if counts[batch].Total() > counts[batch][journal.OK] {
		status = journal.Failed
	}
	fmt.Println(counts[batch], j.SetBatchStatus(ctx, batch, status, ""))
	// Output: map[ok:1] <nil>
}
