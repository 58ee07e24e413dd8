package chain_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
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

// jobs is a service whose jobs take some polls until they are done. It records the times of its calls.
type jobs struct {
	engine  *chain.Engine
	options chain.Options
	journal *journal.Journal
	began   time.Time
	world   *world
	polls   map[string]int
	ended   []*chain.RequestEnd // reports to the observer
}

// newJobs returns jobs in fake time.
func newJobs(t *testing.T) *jobs {
	j := &jobs{began: time.Now(), world: &world{}, polls: map[string]int{}}
	functions := []steps.Function{
		{Spec: steps.Spec{Name: "job.poll", Effect: steps.Read, EffectDeclared: true}, Call: j.call("poll")},
		{Spec: steps.Spec{Name: "job.start", EffectDeclared: true}, Call: j.call("start")},
		{Spec: steps.Spec{Name: "job.set", EffectDeclared: true, Idempotent: true}, Call: j.call("set")},
	}
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		t.Fatal(err)
	}
	if j.journal, err = journal.New(&journal.Memory{}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.journal.Close() })
	j.options = chain.Options{Functions: registry, Journal: j.journal, MaxDuration: -1, MaxConcurrency: 300, Observer: j}
	j.start(t)
	return j
}

// start creates the engine.
func (j *jobs) start(t *testing.T) {
	var err error
	if j.engine, err = chain.New(&j.options); err != nil {
		t.Fatal(err)
	}
}

// call returns a function that reports done after as many calls as its argument needs says, and fails the first calls, as many as its
// argument fails says. Each call takes us microseconds and a little more that depends on id, so that the calls of elements end one after
// another.
func (j *jobs) call(name string) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		a := gjson.ParseBytes(args)
		id, took := a.Get("id").String(), time.Duration(a.Get("us").Int())*time.Microsecond
		if took > 0 {
			h := fnv.New32a()
			h.Write([]byte(id))
			took += time.Duration(h.Sum32()%1000003) * time.Microsecond
		}
		j.world.record(fmt.Sprint(time.Since(j.began), " ", name, " ", id))
		j.world.mu.Lock()
		j.polls[id]++
		n := j.polls[id]
		j.world.mu.Unlock()
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if n <= int(a.Get("fails").Int()) {
			return nil, fault.New(fault.Unavailable, "poll %d of %s", n, id)
		}
		return fmt.Appendf(nil, `{"id":%q,"n":%d,"rows":[%d],"done":%t}`, id, n, n, n >= int(a.Get("needs").Int())), nil
	}
}

func (j *jobs) Request(ctx context.Context, _ *chain.RequestInfo) (context.Context, func(*chain.RequestEnd)) {
	return ctx, func(e *chain.RequestEnd) { j.ended = append(j.ended, e) }
}

func (j *jobs) Step(ctx context.Context, _ chain.StepInfo) (context.Context, func(chain.StepEnd)) {
	return ctx, nil
}

// minPause is the shortest pause that suspends a run of these tests.
const minPause = 10 * time.Second

// run runs a chain, and resumes it whenever its pauses are over. It returns the last answer, and how often the run was suspended.
func (j *jobs) run(t *testing.T, text string) (a *chain.Answer, suspended int) {
	for {
		before := len(j.world.seen())
		a = j.engine.Run(t.Context(), []byte(text), &chain.Caller{Suspend: minPause})
		if a.Resumes.IsZero() {
			return a, suspended
		}
		if suspended++; time.Until(a.Resumes) < minPause || len(j.world.seen()) == before || suspended > 1000 {
			t.Errorf("suspension %d, for %v after %d calls: %s, want at least %v and a call before it", suspended, time.Until(a.Resumes), len(j.world.seen())-before, a.JSON, minPause)
			return a, suspended
		}
		time.Sleep(time.Until(a.Resumes))
	}
}

// row returns the run's row.
func (j *jobs) row(t *testing.T) *journal.Row {
	rows, err := j.journal.List(t.Context(), &journal.Filter{})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d runs, want 1: %v", len(rows), err)
	}
	return &rows[0]
}

// TestSuspendedPoll: a run that only pauses ends, waits in the journal, and goes on from there. A resume that comes too early calls
// nothing.
func TestSuspendedPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t)
		const text = `{"key":"K","steps":[{"fn":"job.start","args":{"id":"a"}},{"fn":"job.poll","args":{"id":"b","needs":3},
			"repeat":{"until":"$result.done","max":9,"delayMs":600000}}],"return":"$1.n"}`
		due := j.began.Add(10 * time.Minute)
		for range 3 {
			a := j.engine.Run(t.Context(), []byte(text), &chain.Caller{Suspend: minPause})
			if !a.Resumes.Equal(due) || a.OK || a.Error.Code != fault.Cancelled || gjson.GetBytes(a.JSON, "resume").Str == "" ||
				gjson.GetBytes(a.JSON, "result").Exists() {
				t.Fatalf("suspended until %v: %s, want until %v, with a resume and without a result", a.Resumes.Sub(j.began), a.JSON, due.Sub(j.began))
			}
			if row := j.row(t); row.Status != journal.Waiting || row.Code != "" || row.Calls != 2 || row.Tokens != 0 {
				t.Errorf("suspended run %+v, want waiting, no code, 2 calls and no tokens", row)
			}
			time.Sleep(3 * time.Minute)
		}
		time.Sleep(time.Until(due))
		a, _ := j.run(t, text)
		if got := gjson.GetBytes(a.JSON, "result").Raw; !a.OK || got != "3" || time.Since(j.began) != 20*time.Minute {
			t.Errorf("ended after %v: %s, want 3 after 20m", time.Since(j.began), a.JSON)
		}
		row := j.row(t)
		if row.Status != journal.OK || row.Calls != 4 || row.Lease != 5 {
			t.Errorf("ended run %+v, want ok, 4 calls and lease 5", row)
		}
		past, err := j.journal.Read(t.Context(), row.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := slices.DeleteFunc(past.Events, func(e journal.Event) bool { return e.Kind != journal.Sent })
		if len(sent) != 1 {
			t.Errorf("the journal has the chain %d times, want 1", len(sent))
		}
		for _, e := range j.ended {
			if e.Err != nil {
				t.Errorf("the observer got the error %v", e.Err)
			}
		}
	})
}

// TestManyPolls: the pauses of several elements pass together, and other elements run meanwhile.
func TestManyPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t)
		a, suspended := j.run(t, `{"key":"K","steps":[{"fn":"job.poll","forEach":"1..100","concurrency":100,
			"args":{"id":"j${$item}","needs":4,"us":"$item"},"repeat":{"until":"$result.done","max":9,"delayMs":60000}}]}`)
		if !a.OK || suspended != 3 || len(j.world.seen()) != 400 {
			t.Errorf("suspended %d times with %d calls, want 3 with 400: %s", suspended, len(j.world.seen()), a.JSON)
		}
	})
}

// TestNotSuspended: a run is not suspended for short pauses, after a failure that a resume would repeat, in a step with a time limit, in a
// round without calls, or without Caller.Suspend.
func TestNotSuspended(t *testing.T) {
	t.Parallel()
	const poll = `{"fn":"job.poll","args":{"id":"p","needs":3},"repeat":{"until":"$result.done","max":9,"delayMs":60000}}`
	for name, chainSteps := range map[string]string{
		"short":     strings.Replace(poll, "60000", "9999", 1),
		"failed":    `{"fn":"job.poll","args":{"id":"f","fails":1}},` + poll,
		"defaulted": `{"fn":"job.poll","args":{"id":"f","fails":1},"orElse":1},` + poll,
		"element":   `{"fn":"job.poll","forEach":"0..1","args":{"id":"f${$item}","fails":"$item"},"orElse":1},` + poll,
		"limited":   `{"args":{},"timeoutMs":3600000,"chain":{"steps":[` + poll + `]}}`,
		"no call":   `{"args":{},"chain":{"steps":[{"expr":"1"}]},"repeat":{"until":"false","max":3,"delayMs":60000}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := newJobs(t)
				if a, suspended := j.run(t, `{"key":"K","onError":"continue","steps":[`+chainSteps+`]}`); suspended != 0 ||
					a.OK != (name != "failed" && name != "no call") {
					t.Errorf("suspended %d times, want 0: %s", suspended, a.JSON)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t)
		a := j.engine.Run(t.Context(), []byte(`{"steps":[`+poll+`]}`), nil)
		if !a.OK || !a.Resumes.IsZero() || time.Since(j.began) != 2*time.Minute {
			t.Errorf("without Suspend: %s, want success after 2m", a.JSON)
		}
	})
}

// TestDryRunDoesNotPause: a dry run of a resume is answered at once, however long the chain has paused.
func TestDryRunDoesNotPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t)
		const text = `{"key":"K","steps":[{"fn":"job.poll","args":{"id":"b","needs":3},"repeat":{"until":"$result.done","max":9,"delayMs":60000}},
			{"fn":"job.poll","args":{"id":"f","fails":1}}]}`
		if a, _ := j.run(t, text); a.OK {
			t.Fatalf("got %s, want a failure", a.JSON)
		}
		before := time.Now()
		a := j.engine.Run(t.Context(), []byte(`{"key":"K","dryRun":true}`), nil)
		if !a.OK || time.Since(before) != 0 || gjson.GetBytes(a.JSON, "plan.resume.reused").Raw != "[0]" {
			t.Errorf("dry run answered after %v: %s, want at once, with step 0 reused", time.Since(before), a.JSON)
		}
	})
}

// TestSuspendedRetryIsApproved: an approval covers all attempts at a call, even those after a pause.
func TestSuspendedRetryIsApproved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t)
		j.options.Approve = steps.ApproveWrite
		j.start(t)
		const text = `{"key":"K","lite":true,"steps":[{"fn":"job.set","args":{"id":"a","fails":1},"retry":{"max":3,"backoffMs":60000}}]}`
		waiting, _ := j.run(t, text)
		approve := gjson.GetBytes(waiting.JSON, "approve").Str
		a := j.engine.Run(t.Context(), []byte(`{"resume":"`+gjson.GetBytes(waiting.JSON, "resume").Str+`","approve":"`+approve+`"}`),
			&chain.Caller{Suspend: minPause})
		if a.Resumes.IsZero() {
			t.Fatalf("the retry was not suspended: %s", a.JSON)
		}
		time.Sleep(time.Until(a.Resumes))
		if a, _ = j.run(t, text); !a.OK || len(j.world.seen()) != 2 {
			t.Errorf("got %s after the calls %v, want success after two", a.JSON, j.world.seen())
		}
	})
}

// TestUndoIsNotSuspended: a run that undoes its writes when it fails is not suspended, so that it can undo them if it is cancelled in a
// pause.
func TestUndoIsNotSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		a := j.engine.Run(ctx, []byte(`{"key":"K","onError":"undo","steps":[
			{"fn":"job.set","args":{"id":"a"},"undo":{"fn":"job.set","args":{"id":"undo"}}},
			{"fn":"job.poll","args":{"id":"b","needs":9},"repeat":{"until":"$result.done","max":9,"delayMs":60000}}]}`),
			&chain.Caller{Suspend: minPause})
		if !a.Resumes.IsZero() || a.OK || len(j.world.seen()) != 3 {
			t.Errorf("got %s after the calls %v, want a failure after three, and no suspension", a.JSON, j.world.seen())
		}
	})
}
