package chain_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// workers carry out runs with the same engine, each by its key, as soon as its lease is free.
func workers(e *chain.Engine, handed *chain.DurableRun) *chain.Durable {
	return &chain.Durable{
		NewKey: func() string { return "made" },
		Start: func(ctx context.Context, run *chain.DurableRun) (<-chan *chain.Answer, *fault.Error) {
			*handed = *run
			ended := make(chan *chain.Answer, 1)
			request := []byte(`{"key":"` + run.Key + `",` + string(run.Chain[1:]))
			if gjson.GetBytes(run.Chain, "key").Exists() {
				request = run.Chain
			}
			go func() {
				ctx := context.WithoutCancel(ctx)
				worker := &chain.Caller{ID: "ann", MaxTotalTokens: run.MaxTotalTokens}
				answer := e.Run(ctx, request, worker)
				for !answer.OK && answer.Error.Code == fault.Busy {
					time.Sleep(time.Millisecond)
					answer = e.Run(ctx, request, worker)
				}
				ended <- answer
			}()
			return ended, nil
		},
	}
}

// TestDurable: a run is written to the journal and handed to a worker, which finds it by its key; it is one run throughout.
func TestDurable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request, key string
		after        time.Duration // in which the request is answered
		answered     bool          // with the answer of the run
	}{
		"at once":         {`{"steps":[{"fn":"job.run"}],"durable":true}`, "made", 0, false},
		"async":           {`{"steps":[{"fn":"job.run"}],"async":true}`, "made", 0, false},
		"a key":           {`{"steps":[{"fn":"job.run"}],"durable":true,"key":"mine"}`, "mine", 0, false},
		"after a while":   {`{"steps":[{"fn":"job.run"}],"asyncAfterMs":20000}`, "made", 20 * time.Second, false},
		"with its answer": {`{"steps":[{"fn":"job.run"}],"durable":true,"asyncAfterMs":90000}`, "made", time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, c, _, _ := backgroundEngine(t)
				var run chain.DurableRun
				c.Durable, c.MaxTotalTokens = workers(e, &run), 900
				began := time.Now()
				a := e.Run(t.Context(), []byte(test.request), c)
				if took := time.Since(began).Truncate(time.Second); took != test.after || !a.OK || (a.Run == "") != test.answered {
					t.Fatalf("%v: %s", took, a.JSON)
				}
				if run.Key != test.key || run.MaxTotalTokens != 900 || run.Steps != 1 || !test.answered && a.Run != run.ID {
					t.Errorf("%+v for %s", run, a.JSON)
				}
				time.Sleep(2 * time.Minute)
				past, err := e.PastRun(t.Context(), run.ID, c)
				if err != nil || past.Row.Status != journal.OK || past.Row.CallersKey() != test.key || past.Row.Calls != 1 {
					t.Errorf("%+v: %v", past, err)
				}
			})
		})
	}
}

// TestDurableIsRefused: a chain for workers that cannot have them is not run, and its run can be resumed.
func TestDurableIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, ended, _ := backgroundEngine(t)
		request := []byte(`{"steps":[{"fn":"job.run"}],"durable":true,"lite":true}`)
		if a := e.Run(t.Context(), request, c); a.OK || a.Error.Code != fault.NotSupported || a.Error.At != "/durable" {
			t.Errorf("without workers: %s", a.JSON)
		}
		if a := e.Run(t.Context(), request, &chain.Caller{}); string(a.JSON) != `"done"` {
			t.Errorf("by a worker: %s", a.JSON)
		}
		c.Durable = workers(e, &chain.DurableRun{})
		c.Durable.Start = func(context.Context, *chain.DurableRun) (<-chan *chain.Answer, *fault.Error) {
			return nil, fault.New(fault.Unavailable, "no server answers")
		}
		a := e.Run(t.Context(), request, c)
		run := gjson.GetBytes(a.JSON, "resume").Str
		if a.OK || a.Error.Code != fault.Unavailable || run == "" {
			t.Fatalf("without a server: %s", a.JSON)
		}
		if a := e.Run(t.Context(), []byte(`{"resume":"`+run+`","durable":false}`), c); !a.OK || string(a.JSON) != `"done"` {
			t.Errorf("resumed here: %s", a.JSON)
		}
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"async":true,"durable":false}`), c); !a.OK {
			t.Errorf("in the background: %s", a.JSON)
		}
		<-ended
	})
}

// TestDurableResume: a run that failed at a worker is resumed by one, under the key that it has; one that began without a key is not.
func TestDurableResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, _, _ := backgroundEngine(t)
		var run chain.DurableRun
		c.Durable = workers(e, &run)
		e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"},{"expr":"int($0)"}],"durable":true}`), c)
		time.Sleep(2 * time.Minute)
		first := run
		a := e.Run(t.Context(), []byte(`{"resume":"`+run.ID+`","replace":{"1":{"expr":"$0 + '!'"}},"asyncAfterMs":1000,"lite":true}`), c)
		if !a.OK || string(a.JSON) != `"done!"` || run.Key != first.Key || run.ID != first.ID {
			t.Errorf("%+v after %+v: %s", run, first, a.JSON)
		}
		failed := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"},{"expr":"int($0)"}]}`), c)
		id := gjson.GetBytes(failed.JSON, "resume").Str
		a = e.Run(t.Context(), []byte(`{"resume":"`+id+`","durable":true}`), c)
		if a.OK || a.Error.Code != fault.NotSupported || a.Error.At != "/durable" {
			t.Errorf("without a key: %s", a.JSON)
		}
	})
}
