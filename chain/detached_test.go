package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// detachedEngine returns an engine whose function job.run takes a minute, and a caller whose runs may outlast their requests. ended is
// told of the end of each run that was held.
func detachedEngine(t *testing.T) (e *chain.Engine, c *chain.Caller, ended chan struct{}) {
	t.Helper()
	e = engineOf(t, []steps.Function{{
		Spec: steps.Spec{Name: "job.run", Input: json.RawMessage(`{"type":"object"}`), Effect: steps.Read},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Minute):
				return []byte(`"done"`), nil
			}
		},
	}}, chain.Options{Journal: newJournal(t, nil), StepTimeout: time.Hour, MaxDuration: time.Hour}, true)
	ended = make(chan struct{}, 1)
	return e, &chain.Caller{ID: "ann", Detach: chain.Detach{Runs: new(chain.DetachedRuns),
		Hold: func(ctx context.Context) (context.Context, func(), *fault.Error) {
			return context.WithoutCancel(ctx), func() { ended <- struct{}{} }, nil
		}}}, ended
}

// stateOf returns the state of a caller's run.
func stateOf(t *testing.T, e *chain.Engine, id string, c *chain.Caller) *chain.DetachedRun {
	t.Helper()
	run, err := e.DetachedRun(t.Context(), id, true, c)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestAnsweredBeforeItsEnd: an async chain is answered at once, and one with asyncAfterMs after that time. Both continue after their
// request has ended, and their answers are stored for their caller only.
func TestAnsweredBeforeItsEnd(t *testing.T) {
	t.Parallel()
	published := compileSchema(t, chain.AnswerSchema(), "")
	for field, after := range map[string]time.Duration{`"async":true`: 0, `"asyncAfterMs":20000`: 20 * time.Second, `"asyncAfterMs":0`: 0} {
		synctest.Test(t, func(t *testing.T) {
			e, c, ended := detachedEngine(t)
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			a := e.Run(ctx, []byte(`{"steps":[{"fn":"job.run"}],"lite":true,`+field+`}`), c)
			cancel()
			if took := time.Since(began); took != after || a.Detached == nil || !a.OK {
				t.Fatalf("%s: answered after %v: %s, want a run after %v", field, took, a.JSON, after)
			}
			id := gjson.GetBytes(a.JSON, "run").Str
			if run := a.Detached; id == "" || run.ID != id || run.Steps != 1 || !run.Began.Equal(began) || run.Status != journal.Running {
				t.Errorf("%s: detached run %+v, want %q, running, with one step", field, run.Row, id)
			}
			var document any
			if err := json.Unmarshal(a.JSON, &document); err != nil || published.Validate(document) != nil {
				t.Errorf("%s does not match the published schema: %v, %v", a.JSON, err, published.Validate(document))
			}
			if run := stateOf(t, e, id, c); run.Status != journal.Running || run.Done != 0 || run.Answer != nil || run.Took != after {
				t.Errorf("%s: state %+v, want running for %v", field, run, after)
			}
			<-ended
			run := stateOf(t, e, id, c)
			token, lifetime := run.Keep(t.Context())
			if took := time.Since(began); took != time.Minute || run.Took != took || run.Status != journal.OK || run.Done != 1 ||
				string(run.Answer) != `"done"` || token == "" || lifetime != run.Lifetime || lifetime <= 0 {
				t.Errorf("%s: ended after %v with %+v, want \"done\" after 1m, and a token", field, took, run)
			}
			fetch := []byte(`{"continuation_token":"` + token + `","mode":"full","lite":true}`)
			if a := e.Run(t.Context(), fetch, c); string(a.JSON) != `"done"` {
				t.Errorf("the token fetches %s, want \"done\"", a.JSON)
			}
			other := &chain.Caller{ID: "bob", Detach: c.Detach}
			if _, err := e.DetachedRun(t.Context(), id, false, other); fault.CodeOf(err) != fault.TokenExpired {
				t.Errorf("another caller gets the run: %v, want token_expired", err)
			}
		})
	}
}

// TestAnsweredAtItsEnd: a chain with asyncAfterMs that ends in time, or that is cancelled, is answered like any other, and so is an async
// chain of a caller without Detach.
func TestAnsweredAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, ended := detachedEngine(t)
		const patient = `{"steps":[{"fn":"job.run"}],"lite":true,"asyncAfterMs":3600000,"key":"%s"}`
		a := e.Run(t.Context(), fmt.Appendf(nil, patient, "in time"), c)
		if <-ended; string(a.JSON) != `"done"` || a.Detached != nil {
			t.Errorf("answer %s, detached run %v; want \"done\" and none", a.JSON, a.Detached)
		}
		id, err := e.Journal().Find(t.Context(), c.ID, "", "in time")
		if err != nil {
			t.Fatal(err)
		}
		if run := stateOf(t, e, id, c); run.Done >= 0 || run.Answer != nil {
			t.Errorf("a run that was answered is still followed: %+v", run)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a = e.Run(ctx, fmt.Appendf(nil, patient, "cancelled"), c); a.Error == nil || a.Error.Code != fault.Timeout {
			t.Errorf("answer of a cancelled request: %s, want timeout", a.JSON)
		}
		<-ended
		if a = e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"lite":true,"async":true}`), nil); string(a.JSON) != `"done"` {
			t.Errorf("answer to a caller without Detach: %s, want \"done\"", a.JSON)
		}
	})
}

// TestBlocksAtItsEnd: the blocks of a chain go with its answer if the request waits for that; what is fetched later is a text.
func TestBlocksAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c, ended := detachedEngine(t)
		slow := steps.Function{Spec: steps.Spec{Name: "cam.slow", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			time.Sleep(time.Minute)
			return steps.KeepBlock(ctx, &steps.Block{Type: "image", MIME: "image/png", Bytes: []byte("bytes")})
		}}
		e := engineOf(t, []steps.Function{slow}, chain.Options{Journal: newJournal(t, nil), StepTimeout: time.Hour, MaxDuration: time.Hour}, true)
		c.MaxBlockBytes = 1000
		for after, blocks := range map[int]int{120_000: 1, 20_000: 0} {
			a := e.Run(t.Context(), fmt.Appendf(nil, `{"steps":[{"cam.slow":{}}],"asyncAfterMs":%d}`, after), c)
			<-ended
			if a.Detached != nil {
				a.JSON = stateOf(t, e, a.Detached.ID, c).Answer
			}
			told := gjson.GetBytes(a.JSON, "usage.blocks.count").Int()
			if len(a.Blocks) != blocks || told != int64(blocks) || gjson.GetBytes(a.JSON, "result.type").Str != "image" {
				t.Errorf("after %d ms: %d blocks, %d are told of, want %d: %s", after, len(a.Blocks), told, blocks, a.JSON)
			}
		}
	})
}

// TestCancelDetached: a run that is cancelled fails, and says so. One that has ended stays as it is.
func TestCancelDetached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, ended := detachedEngine(t)
		for _, inTime := range []bool{true, false} {
			a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"async":true}`), c)
			if !inTime {
				<-ended
			}
			if err := a.Detached.Cancel(t.Context(), fault.New(fault.Cancelled, "enough")); err != nil {
				t.Fatal(err)
			}
			if inTime {
				<-ended
			}
			run := stateOf(t, e, a.Detached.ID, c)
			if inTime != run.Cancelled || inTime != (run.Code == fault.Cancelled) || inTime != strings.Contains(string(run.Answer), "enough") {
				t.Errorf("cancelled in time: %t: %+v", inTime, run)
			}
		}
	})
}

// TestResumedDetached: a run that has ended keeps that end when a request that waits for it resumes it; latest returns the later one.
func TestResumedDetached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, ended := detachedEngine(t)
		id := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"},{"expr":"int($0)"}],"async":true}`), c).Detached.ID
		<-ended
		if run := stateOf(t, e, id, c); run.Status != journal.Failed || run.Code == "" || run.Answer == nil {
			t.Errorf("the run ended as %+v, want failed with an answer", run)
		}
		time.Sleep(time.Second)
		a := e.Run(t.Context(), []byte(`{"resume":"`+id+`","replace":{"1":{"expr":"$0 + '!'"}},"async":false,"lite":true}`), c)
		if string(a.JSON) != `"done!"` {
			t.Fatalf("resume: %s, want \"done!\"", a.JSON)
		}
		time.Sleep(time.Second) // the end of a run that only reads is written a moment later
		if run := stateOf(t, e, id, c); run.Status != journal.OK || run.Answer != nil {
			t.Errorf("latest: %+v, want ok without an answer", run)
		}
		if run, f := e.DetachedRun(t.Context(), id, false, c); f != nil || run.Status != journal.Failed || run.Answer == nil {
			t.Errorf("the end: %+v, %v, want failed with an answer", run, f)
		}
	})
}

// TestRefusedDetached: a run that may not outlast its request has done nothing, and can be resumed.
func TestRefusedDetached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c, _ := detachedEngine(t)
		c.Detach.Hold = func(context.Context) (context.Context, func(), *fault.Error) {
			return nil, nil, fault.New(fault.Busy, "enough")
		}
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"job.run"}],"async":true}`), c)
		resume := gjson.GetBytes(a.JSON, "resume").Str
		if a.Error == nil || a.Error.Code != fault.Busy || resume == "" {
			t.Fatalf("got %s, want busy and a resume", a.JSON)
		}
		if a = e.Run(t.Context(), []byte(`{"resume":"`+resume+`","async":false,"lite":true}`), c); string(a.JSON) != `"done"` {
			t.Errorf("resume: %s, want \"done\"", a.JSON)
		}
	})
}
