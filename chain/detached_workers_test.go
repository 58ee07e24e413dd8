package chain_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// workers are Workers that carry out each run with the same engine, by its key, as soon as its lease is free.
type workers struct {
	engine  *chain.Engine
	refuse  *fault.Error
	running bool            // what State reports
	handed  chain.HandedRun // the last run
	cancel  context.CancelFunc
	ended   chan *chain.Answer
}

func (w *workers) Start(_ context.Context, run *chain.HandedRun) *fault.Error {
	ended := make(chan *chain.Answer, 1)
	w.handed, w.ended = *run, ended
	if w.refuse != nil {
		return w.refuse
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() {
		request, worker := []byte(`{"key":"`+run.Key+`"}`), &chain.Caller{ID: "ann", MaxTotalTokens: run.MaxTotalTokens}
		answer := w.engine.Run(ctx, request, worker)
		for !answer.OK && answer.Error.Code == fault.Busy {
			time.Sleep(time.Millisecond)
			answer = w.engine.Run(ctx, request, worker)
		}
		ended <- answer
	}()
	return nil
}

func (w *workers) Answer(ctx context.Context, _ string) (*chain.HandedAnswer, error) {
	select {
	case a := <-w.ended:
		return &chain.HandedAnswer{Answer: a}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *workers) State(context.Context, string) (running, idle bool, err error) {
	return w.running, false, nil
}

func (w *workers) Cancel(context.Context, string) error {
	w.cancel()
	return nil
}

// TestDurable: a run is written to the journal and handed to a worker, which finds it by its key; it is one run throughout.
func TestDurable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request, key string
		after        time.Duration // the time within which the request is answered
		answered     bool          // the request gets the answer of the run
	}{
		"at once":         {`{"steps":[{"fn":"job.run"}],"durable":true}`, "", 0, false},
		"async":           {`{"steps":[{"fn":"job.run"}],"async":true}`, "", 0, false},
		"a key":           {`{"steps":[{"fn":"job.run"}],"durable":true,"key":"mine"}`, "mine", 0, false},
		"after a while":   {`{"steps":[{"fn":"job.run"}],"asyncAfterMs":20000}`, "", 20 * time.Second, false},
		"with its answer": {`{"steps":[{"fn":"job.run"}],"durable":true,"asyncAfterMs":90000}`, "", time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, c, _ := detachedEngine(t)
				w := &workers{engine: e}
				c.Detach.Workers, c.MaxTotalTokens = w, 900
				began := time.Now()
				a := e.Run(t.Context(), []byte(test.request), c)
				if took := time.Since(began).Truncate(time.Second); took != test.after || !a.OK || (a.Detached == nil) != test.answered {
					t.Fatalf("answered after %v: %s, want after %v, ended %t", took, a.JSON, test.after, test.answered)
				}
				run := w.handed
				if run.Key == "" || test.key != "" && run.Key != test.key || run.MaxTotalTokens != 900 || run.Lease != 1 ||
					!test.answered && a.Detached.ID != run.Run {
					t.Errorf("handed run %+v, answer %s; want key %q, 900 tokens and lease 1", run, a.JSON, test.key)
				}
				time.Sleep(2 * time.Minute)
				past, err := e.Journal().Read(t.Context(), run.Run, &c.ID)
				if err != nil || past.Row.HandoverLease != run.Lease || past.Row.Status != journal.OK ||
					past.Row.CallersKey() != run.Key || past.Row.Calls != 1 {
					t.Errorf("past run %+v, %v; want ok, key %q, 1 call", past, err, run.Key)
				}
			})
		})
	}
}

// TestDurableIsRefused: a chain for workers that cannot have them is not run, and its run can be resumed.
func TestDurableIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, ended := detachedEngine(t)
		request := []byte(`{"steps":[{"fn":"job.run"}],"durable":true,"lite":true}`)
		if a := e.Run(t.Context(), request, c); a.OK || a.Error.Code != fault.NotSupported || a.Error.At != "/durable" {
			t.Errorf("without workers: %s, want not_supported at /durable", a.JSON)
		}
		if a := e.Run(t.Context(), request, &chain.Caller{}); string(a.JSON) != `"done"` {
			t.Errorf("without a caller id: %s, want \"done\"", a.JSON)
		}
		c.Detach.Workers = &workers{refuse: fault.New(fault.Unavailable, "no server answers")}
		a := e.Run(t.Context(), request, c)
		run := gjson.GetBytes(a.JSON, "resume").Str
		if a.OK || a.Error.Code != fault.Unavailable || run == "" {
			t.Fatalf("when the server does not answer: %s, want unavailable and a resume", a.JSON)
		}
		if a := e.Run(t.Context(), []byte(`{"resume":"`+run+`","durable":false}`), c); !a.OK || string(a.JSON) != `"done"` {
			t.Errorf("resumed without workers: %s, want \"done\"", a.JSON)
		}
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"async":true,"durable":false}`), c); !a.OK {
			t.Errorf("in the background: %s, want success", a.JSON)
		}
		<-ended
	})
}

// TestDurableResume: a run that failed at a worker is resumed by a worker, under its key; a run that began without a key is not.
func TestDurableResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, _ := detachedEngine(t)
		w := &workers{engine: e}
		c.Detach.Workers = w
		e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"},{"expr":"int($0)"}],"durable":true}`), c)
		time.Sleep(2 * time.Minute)
		first := w.handed
		a := e.Run(t.Context(), []byte(`{"resume":"`+first.Run+`","replace":{"1":{"expr":"$0 + '!'"}},"asyncAfterMs":1000,"lite":true}`), c)
		if !a.OK || string(a.JSON) != `"done!"` || w.handed.Key != first.Key || w.handed.Run != first.Run ||
			w.handed.Lease <= first.Lease {
			t.Errorf("handed %+v: %s; want \"done!\" and a later lease of %+v", w.handed, a.JSON, first)
		}
		failed := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"},{"expr":"int($0)"}]}`), c)
		id := gjson.GetBytes(failed.JSON, "resume").Str
		a = e.Run(t.Context(), []byte(`{"resume":"`+id+`","durable":true}`), c)
		if a.OK || a.Error.Code != fault.NotSupported || a.Error.At != "/durable" {
			t.Errorf("durable resume of a run without a key: %s, want not_supported at /durable", a.JSON)
		}
	})
}

// TestDurableIsCancelled: a client that cancels before its answer cancels the run at the workers.
func TestDurableIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, _ := detachedEngine(t)
		w := &workers{engine: e}
		c.Detach.Workers = w
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e.Run(ctx, []byte(`{"steps":[{"fn":"job.run"}],"asyncAfterMs":30000}`), c)
		if a := <-w.ended; a.OK || a.Error.Code != fault.Cancelled {
			t.Errorf("answer of the worker: %s, want cancelled", a.JSON)
		}
	})
}

// TestDurableKeyIsSentAgain: while workers have the run, the same key is answered with its id, and a resume is busy. Afterwards the key is
// answered as before.
func TestDurableKeyIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, _ := detachedEngine(t)
		w := &workers{engine: e, refuse: fault.New(fault.Unavailable, "lost on the way")}
		c.Detach.Workers = w
		request := []byte(`{"steps":[{"fn":"job.run"}],"durable":true,"key":"mine","lite":true}`)
		e.Run(t.Context(), request, c)
		w.refuse, w.running = nil, true // the hand-over succeeded despite the fault
		id := w.handed.Run
		if a := e.Run(t.Context(), request, c); a.Detached == nil || a.Detached.ID != id || w.handed.Lease != 1 {
			t.Errorf("same key while a worker has the run: %s, want run %s with lease 1", a.JSON, id)
		}
		if a := e.Run(t.Context(), []byte(`{"resume":"`+id+`"}`), c); a.OK || a.Error.Code != fault.Busy {
			t.Errorf("resume while a worker has the run: %s, want busy", a.JSON)
		}
		w.running = false
		e.Run(t.Context(), request, c)
		time.Sleep(time.Second)
		if a := e.Run(t.Context(), request, c); a.OK || a.Error.Code != fault.Busy || !strings.Contains(a.Error.Message, id) {
			t.Errorf("same key while the run continues: %s, want busy", a.JSON)
		}
		<-w.ended
		if a := e.Run(t.Context(), request, c); string(a.JSON) != `"done"` {
			t.Errorf("same key after the run: %s, want \"done\"", a.JSON)
		}
	})
}
