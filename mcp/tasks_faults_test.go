package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// watchedJournal is a journal in memory whose reads a test counts, changes or lets fail.
type watchedJournal struct {
	journal.Memory
	rows      atomic.Int64 // how many were read, or looked for
	onRow     atomic.Pointer[func(id string, row *journal.Row) error]
	onLoad    atomic.Pointer[func() error]
	onAcquire atomic.Pointer[func()] // is called once
	version   time.Duration          // after so much another process is said to have written; 0: nobody else writes
	versions  atomic.Int64
}

func (w *watchedJournal) LoadRow(ctx context.Context, id string) (*journal.Row, error) {
	w.rows.Add(1)
	row, err := w.Memory.LoadRow(ctx, id)
	if watch := w.onRow.Load(); watch != nil && err == nil {
		err = (*watch)(id, row)
	}
	return row, err
}

func (w *watchedJournal) Load(ctx context.Context, id string, lease int64, first int) (*journal.Record, error) {
	if watch := w.onLoad.Load(); watch != nil {
		if err := (*watch)(); err != nil {
			return nil, err
		}
	}
	return w.Memory.Load(ctx, id, lease, first)
}

func (w *watchedJournal) Acquire(ctx context.Context, id string, caller *string) (*journal.Record, error) {
	if meet := w.onAcquire.Swap(nil); meet != nil {
		(*meet)()
	}
	return w.Memory.Acquire(ctx, id, caller)
}

func (w *watchedJournal) Version(context.Context) (string, time.Duration, error) {
	return fmt.Sprint(w.versions.Add(1)), w.version, nil
}

// lookUps counts the reads of the row of a run.
func (w *watchedJournal) lookUps(run string) *atomic.Int64 {
	n := &atomic.Int64{}
	w.onRow.Store(new(func(id string, _ *journal.Row) error {
		if id == run {
			n.Add(1)
		}
		return nil
	}))
	return n
}

// watchedResults is a store of results whose reads and writes a test holds up or lets fail.
type watchedResults struct {
	budget.Driver
	onGet, onPut atomic.Pointer[func() error]
}

func (w *watchedResults) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	if watch := w.onGet.Load(); watch != nil {
		if err := (*watch)(); err != nil {
			return budget.Entry{}, err
		}
	}
	return w.Driver.Get(ctx, key, admit)
}

func (w *watchedResults) Put(ctx context.Context, key string, e budget.Entry) error {
	if watch := w.onPut.Load(); watch != nil {
		if err := (*watch)(); err != nil {
			return err
		}
	}
	return w.Driver.Put(ctx, key, e)
}

// watched has what the servers of a test share.
type watched struct {
	driver *watchedJournal
	runs   *journal.Journal
	store  *watchedResults
	shared *budget.Results
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{driver: &watchedJournal{}}
	var err error
	if w.runs, err = journal.New(w.driver, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.runs.Close() })
	memory, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	w.store = &watchedResults{Driver: memory}
	if w.shared, err = budget.NewResults(w.store, &budget.ResultsOptions{Counter: counter}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.shared.Close() })
	return w
}

// asker returns a client of a server of its own.
func (w *watched) asker(t *testing.T) (*asker, *testServer) {
	t.Helper()
	s := replicaOf(t, w.runs, w.shared)
	return newAskerAt(t, mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error {
		return s.ServeHTTP(ctx, l, &transport.Access{Anyone: *writer})
	})+transport.Path, statelessVersion), s
}

const slow = `[{"fn":"shop.slow"}]`

// TestTaskIDsAreBounded: however many tasks a client asks to be told of, no more are looked up than it may follow.
func TestTaskIDsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	s := replicaOf(t, w.runs, w.shared)
	ann := newAsker(t, s, statelessVersion)
	id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
	ann.await(t, id, "input_required")
	ids := `["` + id + `"`
	for n := range 5000 {
		ids += fmt.Sprintf(`,"run_%d"`, n)
	}
	before := w.driver.rows.Load()
	ack := ann.listen(t, ids+"]")()
	if n := w.driver.rows.Load() - before; ack.Get("params.notifications.taskIds").Raw != `["`+id+`"]` || n > 110 {
		t.Errorf("%d are looked up, and told of %s", n, ack)
	}
}

// TestTaskStreamPace: a task that goes on elsewhere is looked at each second, and one that waits each minute, whatever others record.
func TestTaskStreamPace(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		steps, status string
		version       time.Duration
		time          time.Duration
		most          int64
	}{
		"working, another process writes": {slow, "working", 100 * time.Millisecond, 30 * time.Second, 30},
		"waits, others write":             {`[` + fmt.Sprintf(create, 1) + `]`, "input_required", 0, 5 * time.Minute, 5},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t)
				w.driver.version = test.version
				there, s := w.asker(t)
				here, _ := w.asker(t)
				id := there.begin(t, test.steps)
				there.await(t, id, test.status)
				next := here.listen(t, `["`+id+`"]`)
				for range 2 {
					next()
				}
				time.Sleep(500 * time.Millisecond)
				looks := w.driver.lookUps(id)
				for range int(test.time / time.Second) {
					if test.version == 0 {
						there.send(t, "tools/call", `"name":"chain","arguments":{"steps":[{"fn":"shop.echo"}]}`)
					}
					time.Sleep(time.Second)
				}
				if n := looks.Load(); n > test.most || n < test.most-1 {
					t.Errorf("looked at %d times, want %d", n, test.most)
				}
				if s.shop.finish <- struct{}{}; test.status == "working" {
					there.await(t, id, "completed")
				}
			})
		})
	}
}

// TestTaskOutlastsAFailure: while the journal or the results cannot be read for a moment, a task is not said to be gone, nor to have ended,
// and a stream goes on with it.
func TestTaskOutlastsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		here, _ := w.asker(t)
		there, _ := w.asker(t)
		id := here.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
		asks := here.await(t, id, "input_required")
		next := there.listen(t, `["`+id+`"]`)
		next() // the acknowledgement
		if got := next(); got.Get("params.status").Str != "input_required" {
			t.Fatalf("told of %s", got)
		}
		away := func() error { return errors.New("the database is away") }
		w.driver.onLoad.Store(&away)
		w.driver.onRow.Store(new(func(string, *journal.Row) error { return away() }))
		for where, c := range map[string]*asker{"here": here, "there": there} {
			if got := c.send(t, "tasks/get", `"taskId":"`+id+`"`).Get("error"); got.Get("code").Int() != -32603 ||
				got.Get("data.code").Str != "unavailable" {
				t.Errorf("%s: %s, want that the journal cannot be used", where, got)
			}
		}
		if got := there.send(t, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`).Get("error.code").Int(); got != -32603 {
			t.Errorf("a new stream: %d", got)
		}
		time.Sleep(2 * time.Minute) // the stream looks at it in vain
		w.driver.onLoad.Store(nil)
		w.driver.onRow.Store(nil)
		here.reply(t, asks, `{"action":"accept"}`)
		m := next()
		for m.Get("params.status").Str == "working" {
			m = next()
		}
		if m.Get("params.status").Str != "completed" {
			t.Errorf("told of %s, want the end", m)
		}
		w.store.onGet.Store(&away)
		for where, c := range map[string]*asker{"here": here, "there": there} {
			if got := c.send(t, "tasks/get", `"taskId":"`+id+`"`).Get("result"); got.Get("status").Str != "working" ||
				!strings.Contains(got.Get("statusMessage").Str, "cannot be read now") {
				t.Errorf("%s: %s, want that its answer cannot be read", where, got)
			}
		}
		w.store.onGet.Store(nil)
		here.await(t, id, "completed")
	})
}

// TestTaskAnswerIsWaitedFor: the end of a run may be known before its answer is, and to a process whose clock is ahead.
func TestTaskAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		there, s := w.asker(t)
		here, _ := w.asker(t)
		id := there.begin(t, slow)
		w.store.onPut.Store(new(func() error { time.Sleep(2 * time.Second); return nil }))
		w.driver.onRow.Store(new(func(_ string, row *journal.Row) error { row.Last = row.Last.Add(-20 * time.Second); return nil }))
		s.shop.finish <- struct{}{}
		time.Sleep(500 * time.Millisecond)
		if got := here.send(t, "tasks/get", `"taskId":"`+id+`"`); got.Get("result.status").Str != "completed" {
			t.Errorf("%s, want the answer", got)
		}
	})
}

// TestTaskIsCancelledAsItGoesOn: a task that a person lets go on, while it is being cancelled, is cancelled.
func TestTaskIsCancelledAsItGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		ann, s := w.asker(t)
		id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`,{"fn":"shop.slow"}]`)
		asks := ann.await(t, id, "input_required")
		w.driver.onAcquire.Store(new(func() { // the cancellation has seen that the task waits
			ann.reply(t, asks, `{"action":"accept"}`)
			<-s.shop.started
		}))
		if ack := ann.send(t, "tasks/cancel", `"taskId":"`+id+`"`); ack.Get("result.resultType").Str != "complete" {
			t.Fatalf("the cancellation: %s", ack)
		}
		ann.await(t, id, "cancelled")
	})
}

// TestTaskIsHeldForAMoment: while another request decides about a task, what a person says about it and its cancellation wait. If that takes
// longer, they fail, and are not acknowledged.
func TestTaskIsHeldForAMoment(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		for _, verb := range []string{"update", "cancel"} {
			t.Run(fmt.Sprintf("%s long=%t", verb, long), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWatched(t)
					ann, _ := w.asker(t)
					id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
					asks := ann.await(t, id, "input_required")
					held, err := w.runs.Acquire(t.Context(), id, nil)
					if err != nil {
						t.Fatal(err)
					}
					holds := map[bool]time.Duration{false: 300 * time.Millisecond, true: time.Minute}[long]
					time.AfterFunc(holds, func() { w.runs.Release(held) })
					var ack gjson.Result
					if verb == "update" {
						ack = ann.reply(t, asks, `{"action":"accept"}`)
					} else {
						ack = ann.send(t, "tasks/cancel", `"taskId":"`+id+`"`)
					}
					switch {
					case long && ack.Get("error.data.code").Str != "busy":
						t.Errorf("acknowledged with %s, want busy", ack)
					case long:
						time.Sleep(time.Hour)
						ann.await(t, id, "input_required")
					default:
						ann.await(t, id, map[string]string{"update": "completed", "cancel": "cancelled"}[verb])
					}
				})
			})
		}
	}
}

// TestReplyIsNotSaidToBeLost: an update whose reply was recorded is acknowledged, though the task cannot be read afterwards.
func TestReplyIsNotSaidToBeLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		ann, s := w.asker(t)
		id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
		asks := ann.await(t, id, "input_required")
		w.driver.onAcquire.Store(new(func() {
			w.driver.onLoad.Store(new(func() error { return errors.New("the database is away") }))
		}))
		if ack := ann.reply(t, asks, `{"action":"accept"}`); ack.Get("result.resultType").Str != "complete" {
			t.Errorf("acknowledged with %s", ack)
		}
		w.driver.onLoad.Store(nil)
		if ann.await(t, id, "completed"); s.shop.calls.Load() != 1 {
			t.Errorf("%d calls, want 1", s.shop.calls.Load())
		}
	})
}

// TestTaskStaysEnded: a task that ended as its client cannot be asked does not go on because somebody looks when its answer is gone.
func TestTaskStaysEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		ann, s := w.asker(t)
		ann.meta = strings.Replace(ann.meta, `"elicitation":{"form":{}},`, "", 1)
		id := ann.begin(t, `[{"fn":"shop.echo"},`+fmt.Sprintf(create, 1)+`]`)
		ended := ann.await(t, id, "completed")
		time.Sleep(2 * time.Hour)
		got := ann.send(t, "tasks/get", `"taskId":"`+id+`"`)
		if got.Get("error.code").Int() != -32602 || s.shop.calls.Load() != 1 {
			t.Errorf("%s became %s after %d calls", ended, got, s.shop.calls.Load())
		}
	})
}

// TestTaskMayNotGoOn: a task that was decided about, and may not go on, has not ended: it goes on once its caller has its rights again.
func TestTaskMayNotGoOn(t *testing.T) {
	t.Parallel()
	_, results := storeOf(t)
	t.Cleanup(func() { results.Close() })
	runs := newJournal(t)
	s := replicaOf(t, runs, results)
	ann := newAskerAt(t, s.http(t, writer), statelessVersion)
	id := ann.begin(t, `[`+fmt.Sprintf(create, 1)+`]`)
	ann.await(t, id, "input_required")
	decide(t, runs, id, false)
	s.SetAccess(t, &transport.Access{Anyone: *mcptest.Caller("writer", steps.TierRead)})
	got := ann.send(t, "tasks/get", `"taskId":"`+id+`"`).Get("result")
	if got.Get("status").Str != "working" || got.Get("statusMessage").Str == "" || got.Get("result").Exists() {
		t.Errorf("got %s, want that it works, and why it does not go on", got)
	}
	s.SetAccess(t, &transport.Access{Anyone: *writer})
	if ann.await(t, id, "completed"); s.shop.calls.Load() != 1 {
		t.Errorf("%d calls, want 1", s.shop.calls.Load())
	}
}
