package chain_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// endRetryDelay is longer than the journal waits before it retries a failed write.
const endRetryDelay = 2 * time.Second

// TestDryRunTakesNoLease: a dry run of a run under way only reads it; a request that resumes the run gets busy.
func TestDryRunTakesNoLease(t *testing.T) {
	t.Parallel()
	const request = `"key":"K","steps":[{"fn":"store.set","args":{"k":"slow"}},{"fn":"store.put","args":{"k":"2"}}]`
	s := newScriptedEngine(t, nil, nil)
	s.ends = func(_ string, args gjson.Result) ([]byte, error) {
		if args.Get("k").Str == "slow" {
			s.run(fault.Busy, `{%s}`, request)
			s.run("", `{%s,"dryRun":true}`, request)
			s.run(fault.Busy, `{%s}`, request)
		}
		return []byte(`{"id":"x"}`), nil
	}
	s.run("", `{%s}`, request)
	s.wantCalls(`store.set {"k":"slow"}`, `store.put {"k":"2"}`)
}

// TestEndOfFailedRunIsRetried: if the end of a failed run cannot be written, its answer has no resume, and the lease is free as soon as
// the database works again.
func TestEndOfFailedRunIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedEngine(t, &flaky{Driver: &journal.Memory{}, fails: firstEnd()}, func(function string, _ gjson.Result) ([]byte, error) {
			if function == "store.get" {
				return nil, fault.New(fault.Unavailable, "the store is away")
			}
			return []byte(`{"id":"x"}`), nil
		})
		const request = `{"key":"K","steps":[{"fn":"store.put","args":{"k":"1"}},{"fn":"store.get"}]}`
		if a := s.run(fault.Unavailable, request); a.Get("resume").Exists() {
			t.Errorf("the answer has a resume, although its end is not written: %s", a.Raw)
		}
		time.Sleep(endRetryDelay)
		s.ends = nil
		a := s.run("", request)
		if a.Get("steps.0.status").Str != "reused" {
			t.Errorf("second request: %s, want step 0 reused", a.Raw)
		}
		s.wantCalls(`store.put {"k":"1"}`, `store.get {}`, `store.get {}`)
	})
}

// TestEndOfSuccessfulRunIsRetried: if the end of a successful run cannot be written, the write is retried, and the run does not stay under
// way.
func TestEndOfSuccessfulRunIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedEngine(t, &flaky{Driver: &journal.Memory{}, fails: firstEnd()}, nil)
		s.run("", `{"steps":[{"fn":"store.put","args":{"k":"1"}},{"fn":"store.get"}]}`)
		time.Sleep(endRetryDelay)
		rows, err := s.journal.List(t.Context(), &journal.Filter{})
		if err != nil || len(rows) != 1 || rows[0].Status != journal.OK {
			t.Fatalf("runs %+v, %v; want one that is ok", rows, err)
		}
		if _, err := s.journal.Acquire(t.Context(), rows[0].ID, nil); err != nil {
			t.Errorf("the lease is still taken: %v", err)
		}
	})
}

// TestEndIsWrittenAfterOutage: runs that could not begin in an outage leave nothing to write, and the end of a call that was under way when
// the next outage began is written after that outage.
func TestEndIsWrittenAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		isDown := true
		f := &flaky{Driver: &journal.Memory{}, fails: func([]journal.Write) bool { return isDown }}
		setDown := func(down bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			isDown = down
		}
		s := newScriptedEngine(t, f, nil)
		for i := range 10_100 {
			s.run(fault.Unavailable, `{"steps":[{"fn":"store.put","args":{"k":%d}}]}`, i)
		}
		s.wantCalls()
		setDown(false)
		s.ends = func(string, gjson.Result) ([]byte, error) {
			setDown(true)
			return []byte(`{"id":"x"}`), nil
		}
		a := s.run(fault.Unavailable, `{"steps":[{"fn":"store.put","args":{"k":"under way"}},{"fn":"store.get"}]}`)
		if a.Get("writes.0.outcome").Str != "applied" {
			t.Errorf("got %s, want an applied write", a.Raw)
		}
		s.wantCalls(`store.put {"k":"under way"}`)
		setDown(false)
		time.Sleep(endRetryDelay)
		rows, err := s.journal.List(t.Context(), &journal.Filter{})
		if err != nil || len(rows) != 1 {
			t.Fatalf("runs %+v, %v; want one", rows, err)
		}
		s.wantRun(rows[0].ID, journal.Interrupted, "0 store.put applied")
		if _, err := s.journal.Acquire(t.Context(), rows[0].ID, nil); err != nil {
			t.Errorf("the lease is still taken: %v", err)
		}
	})
}

// TestOutageWithinStep: a step whose last calls were not made because the journal failed has not succeeded, even if it is the last step of
// its chain.
func TestOutageWithinStep(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{
		"an inline chain": `{"chain":{"steps":[{"fn":"store.put","args":{"k":1}},{"fn":"store.put","args":{"k":2}}]}}`,
		"elements":        `{"fn":"store.put","forEach":"1..2","args":{"k":"$item"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isDown := &atomic.Bool{}
			s := newScriptedEngine(t, &flaky{Driver: &journal.Memory{}, fails: func([]journal.Write) bool { return isDown.Load() }}, nil)
			s.ends = func(string, gjson.Result) ([]byte, error) {
				isDown.Store(true)
				return []byte(`{"id":"x"}`), nil
			}
			a := s.run(fault.Unavailable, `{"steps":[%s]}`, step)
			s.wantCalls(`store.put {"k":1}`)
			if a.Get("writes.0.outcome").Str != "applied" || !strings.Contains(a.Get("error.message").Str, "journal") {
				t.Errorf("got %s, want an applied write, and the journal in the message", a.Raw)
			}
		})
	}
}
