package chain_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// queue are Workers that take runs and never carry them out: the test says what becomes of them. It is changed only between requests.
type queue struct {
	silent bool // State waits for an answer that never comes
	last   chain.HandedRun
	ended  map[string]*chain.HandedAnswer // by the id of the run; nil: it has not ended
}

func (q *queue) Start(_ context.Context, run *chain.HandedRun) *fault.Error {
	q.last, q.ended[run.ID] = *run, nil
	return nil
}

func (q *queue) State(ctx context.Context, id string) (running, idle bool, err error) {
	if q.silent {
		<-ctx.Done()
		return false, false, ctx.Err()
	}
	ended, known := q.ended[id]
	return known && ended == nil, false, nil
}

func (q *queue) Answer(_ context.Context, id string) (*chain.HandedAnswer, error) {
	if q.ended[id] == nil {
		return nil, errors.New("it has not ended")
	}
	return q.ended[id], nil
}

func (q *queue) Cancel(context.Context, string) error { return nil }

// loads is a driver that counts how often the events of a run are loaded.
type loads struct {
	journal.Memory
	n atomic.Int64
}

func (l *loads) Load(ctx context.Context, id string, lease int64, first int) (*journal.Record, error) {
	l.n.Add(1)
	return l.Memory.Load(ctx, id, lease, first)
}

func (l *loads) Acquire(ctx context.Context, id string, caller *string) (*journal.Record, error) {
	l.n.Add(1)
	return l.Memory.Acquire(ctx, id, caller)
}

// queueEngine returns an engine, and a caller whose runs a queue takes.
func queueEngine(t *testing.T, l *loads) (*chain.Engine, *chain.Caller, *queue) {
	t.Helper()
	e := engineOf(t, []steps.Function{
		{Spec: steps.Spec{Name: "guarded.put", EffectDeclared: true, Effect: steps.Write, Approve: steps.ApproveWrite},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte(`"put"`), nil }},
		{Spec: steps.Spec{Name: "job.fail", EffectDeclared: true, Effect: steps.Read},
			Call: func(context.Context, []byte) ([]byte, error) {
				return nil, fault.New(fault.FunctionFailed, "it is not there")
			}},
	}, chain.Options{Journal: newJournal(t, l)}, true)
	q := &queue{ended: map[string]*chain.HandedAnswer{}}
	return e, &chain.Caller{ID: "ann", Detach: chain.Detach{Runs: new(chain.DetachedRuns), Workers: q,
		Hold: func(ctx context.Context) (context.Context, func(), *fault.Error) {
			return context.WithoutCancel(ctx), func() {}, nil
		}}}, q
}

// TestHandedLimit: a caller cannot have more runs at workers than its limit, however many of its runs wait for approval. A run that is
// refused stays as it was; a new one leaves nothing behind. No run is loaded to count them.
func TestHandedLimit(t *testing.T) {
	t.Parallel()
	var l loads
	e, c, q := queueEngine(t, &l)
	c.Detach.MaxHanded = 1
	failed := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.fail"}],"key":"k"}`), c)
	id := gjson.GetBytes(failed.JSON, "resume").Str
	durable := []byte(`{"steps":[{"expr":"1"}],"durable":true}`)
	if a := e.Run(t.Context(), durable, c); a.Detached == nil {
		t.Fatalf("the first run: %s, want it at workers", a.JSON)
	}
	for range 2 {
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put"}]}`), c); codeOf(a) != fault.ApprovalRequired {
			t.Fatalf("got %s, want approval_required", a.JSON)
		}
	}
	rows := func() (list []journal.Row) {
		list, err := e.Journal().List(t.Context(), &journal.Filter{})
		must(t, err)
		return list
	}
	before := rows()
	l.n.Store(0)
	if a := e.Run(t.Context(), durable, c); codeOf(a) != fault.Busy || gjson.GetBytes(a.JSON, "resume").Exists() {
		t.Errorf("the second run: %s, want busy, and nothing to resume", a.JSON)
	}
	if n := l.n.Load(); n > 0 || len(rows()) != len(before) {
		t.Errorf("%d runs were loaded, and the journal has %d, want none, and %d", n, len(rows()), len(before))
	}
	resume := []byte(`{"resume":"` + id + `","durable":true}`)
	if a := e.Run(t.Context(), resume, c); codeOf(a) != fault.Busy {
		t.Errorf("the resume of another run: %s, want busy", a.JSON)
	}
	if last := rows()[len(before)-1]; last.ID != id || last.Status != journal.Failed || last.Code != fault.FunctionFailed {
		t.Errorf("the run whose resume was refused: %+v, want it as it was, failed with X", last)
	}
	if a := e.Run(t.Context(), durable, &chain.Caller{ID: "bob", Detach: c.Detach}); a.Detached == nil {
		t.Errorf("a run of another caller: %s, want it at workers", a.JSON)
	}
	for handed := range q.ended {
		q.ended[handed] = &chain.HandedAnswer{Fault: fault.New(fault.Cancelled, "enough")}
	}
	if a := e.Run(t.Context(), resume, c); a.Detached == nil {
		t.Errorf("the resume after the first run has ended: %s, want it at workers", a.JSON)
	}
}

// TestHandedLimitOfSilentWorkers: however many runs may still be at workers, a request waits once for workers that do not answer.
func TestHandedLimitOfSilentWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 40
		e, c, q := queueEngine(t, &loads{})
		c.Detach.MaxHanded = limit
		durable := []byte(`{"steps":[{"expr":"1"}],"durable":true}`)
		for range limit {
			if a := e.Run(t.Context(), durable, c); a.Detached == nil {
				t.Fatalf("got %s, want a run at workers", a.JSON)
			}
		}
		if a := e.Run(t.Context(), durable, c); codeOf(a) != fault.Busy {
			t.Errorf("got %s, want busy", a.JSON)
		}
		q.silent = true
		began := time.Now()
		if e.Run(t.Context(), durable, c); time.Since(began) > 2*time.Second {
			t.Errorf("answered after %v, want 2s", time.Since(began))
		}
	})
}

// TestLookLoadsNoEvents: the state of a run that has ended, that workers have, or that they are done with, is told without its events and
// results.
func TestLookLoadsNoEvents(t *testing.T) {
	t.Parallel()
	var l loads
	e, c, q := queueEngine(t, &l)
	look := func(id string, status journal.Status, note, answer string) {
		t.Helper()
		l.n.Store(0)
		run := stateOf(t, e, id, c)
		if n := l.n.Load(); n > 0 || run.Status != status || run.Note != note || string(run.Answer) != answer {
			t.Errorf("%d loads, status %s, note %q, answer %s; want no load, %s, %q, %s", n, run.Status, run.Note, run.Answer, status, note,
				answer)
		}
	}
	failed := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.fail"}]}`), c)
	look(gjson.GetBytes(failed.JSON, "resume").Str, journal.Failed, "", "")
	e.Run(t.Context(), []byte(`{"steps":[{"expr":"1"}],"durable":true}`), c)
	look(q.last.Run, journal.Running, "it waits until a worker takes it", "")
	answer := e.Run(t.Context(), []byte(`{"key":"`+q.last.Key+`","lite":true}`), &chain.Caller{ID: "ann"})
	look(q.last.Run, journal.Running, "a worker carries it out", "")
	q.ended[q.last.ID] = &chain.HandedAnswer{Answer: answer, Lease: 2}
	look(q.last.Run, journal.OK, "", "1")
	q.ended[q.last.ID].Lease = 1 // it has gone on elsewhere since
	look(q.last.Run, journal.OK, "", "")
}
