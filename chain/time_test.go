package chain_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// runTimed runs a chain in fake time and passes how long it took.
func runTimed(t *testing.T, request string, cancelAfter time.Duration, test func(a *chain.Answer, took time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if cancelAfter > 0 {
			time.AfterFunc(cancelAfter, cancel)
		}
		e := engine(t, &world{}, chain.Options{})
		started := time.Now()
		answer := e.Run(ctx, []byte(request), nil)
		test(answer, time.Since(started))
	})
}

func TestReadsRunSideBySide(t *testing.T) {
	t.Parallel()
	runTimed(t, `{"steps":[{"fn":"test.sleep","args":{"ms":100}},{"fn":"test.sleep","args":{"ms":200}},{"fn":"test.sleep","args":{"ms":"$1.slept"}}]}`, 0,
		func(a *chain.Answer, took time.Duration) {
			if !a.OK || took != 400*time.Millisecond {
				t.Errorf("took %v, want 400ms: %s", took, a.JSON)
			}
		})
}

func TestWritesAreBarriers(t *testing.T) {
	t.Parallel()
	runTimed(t, `{"steps":[{"fn":"test.sleep","args":{"ms":100}},{"fn":"test.write"},{"fn":"test.sleep","args":{"ms":200}}]}`, 0,
		func(a *chain.Answer, took time.Duration) {
			if !a.OK || took != 300*time.Millisecond {
				t.Errorf("took %v, want 300ms: %s", took, a.JSON)
			}
		})
}

func TestForEachReadsEightAtOnce(t *testing.T) {
	t.Parallel()
	runTimed(t, `{"steps":[{"fn":"test.sleep","forEach":"1..16","args":{"ms":100}}]}`, 0,
		func(a *chain.Answer, took time.Duration) {
			if !a.OK || took != 200*time.Millisecond {
				t.Errorf("took %v, want 200ms: %s", took, a.JSON)
			}
		})
}

func TestDeadlinesReachTheRunningCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request     string
		cancelAfter time.Duration
		code        fault.Code
		took        time.Duration
		words       string
	}{
		"timeoutMs":        {`{"steps":[{"fn":"test.sleep","timeoutMs":50,"args":{"ms":5000}}]}`, 0, fault.Timeout, 50 * time.Millisecond, "timeoutMs"},
		"the default":      {`{"steps":[{"fn":"test.sleep","args":{"ms":50000}}]}`, 0, fault.Timeout, 30 * time.Second, "timeoutMs"},
		"maxDurationMs":    {`{"budget":{"maxDurationMs":70},"steps":[{"fn":"test.sleep","args":{"ms":5000}}]}`, 0, fault.Timeout, 70 * time.Millisecond, "maxDurationMs"},
		"the client":       {`{"steps":[{"fn":"test.sleep","args":{"ms":5000}},{"fn":"test.write"}]}`, 20 * time.Millisecond, fault.Cancelled, 20 * time.Millisecond, "cancelled"},
		"in a forEach":     {`{"onError":"continue","steps":[{"fn":"test.sleep","forEach":"1..99","args":{"ms":5000}}]}`, 20 * time.Millisecond, fault.Cancelled, 20 * time.Millisecond, "cancelled"},
		"in an inline":     {`{"steps":[{"chain":{"steps":[{"fn":"test.sleep","args":{"ms":5000}}]},"timeoutMs":30}]}`, 0, fault.Timeout, 30 * time.Millisecond, "timeoutMs"},
		"between rounds":   {`{"budget":{"maxDurationMs":90},"steps":[{"fn":"test.next","repeat":{"until":"false","max":9,"delayMs":1000}}]}`, 0, fault.Timeout, 90 * time.Millisecond, "maxDurationMs"},
		"orElse stays out": {`{"steps":[{"fn":"test.sleep","orElse":1,"args":{"ms":5000}}]}`, 20 * time.Millisecond, fault.Cancelled, 20 * time.Millisecond, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTimed(t, test.request, test.cancelAfter, func(a *chain.Answer, took time.Duration) {
				if a.OK || a.Error.Code != test.code || took != test.took || !strings.Contains(a.Error.Message, test.words) {
					t.Errorf("took %v, want %v and %s: %s", took, test.took, test.code, a.JSON)
				}
			})
		})
	}
}

// TestStubbornFunction: a function that ignores its context cannot hold the chain.
func TestStubbornFunction(t *testing.T) {
	t.Parallel()
	runTimed(t, `{"steps":[{"fn":"test.stubborn","timeoutMs":50,"orElse":"gone on"}]}`, 0, func(a *chain.Answer, took time.Duration) {
		if !a.OK || took > time.Second || gjson.GetBytes(a.JSON, "result").Str != "gone on" {
			t.Errorf("took %v: %s", took, a.JSON)
		}
		time.Sleep(2 * time.Hour) // the function ends, and with it the bubble
	})
}

func TestRetryBacksOff(t *testing.T) {
	t.Parallel()
	runTimed(t, `{"steps":[{"fn":"test.flaky","retry":{"max":3,"backoffMs":100},"args":{"failures":3}}]}`, 0,
		func(a *chain.Answer, took time.Duration) {
			if !a.OK || took != 700*time.Millisecond {
				t.Errorf("took %v, want 100+200+400 ms: %s", took, a.JSON)
			}
		})
}

func TestWhatHadEndedIsAnswered(t *testing.T) {
	t.Parallel()
	runTimed(t, `{"steps":[{"fn":"test.get","args":{"value":"kept"}},{"fn":"test.sleep","args":{"ms":5000}},{"fn":"test.write"}],"return":["$0","$1","$2"]}`, time.Second,
		func(a *chain.Answer, _ time.Duration) {
			if result := gjson.GetBytes(a.JSON, "result").Raw; result != `["kept",null,null]` {
				t.Errorf("result %s in %s", result, a.JSON)
			}
			if reason := gjson.GetBytes(a.JSON, "steps.2.reason").Str; reason != "cancelled" {
				t.Errorf("step 2 was skipped for %q: %s", reason, a.JSON)
			}
		})
}

// TestNoPositionIsLost has more steps than may run at once: the next begins as soon as any of them ends.
func TestNoPositionIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		request := `{"steps":[{"fn":"test.sleep","args":{"ms":500}},{"fn":"test.sleep","args":{"ms":100}},
			{"fn":"test.sleep","args":{"ms":100}},{"fn":"test.sleep","args":{"ms":100,"value":"$1"}},{"fn":"test.sleep","args":{"ms":100,"value":"$3"}}]}`
		started := time.Now()
		a := engine(t, &world{}, chain.Options{MaxConcurrency: 2}).Run(t.Context(), []byte(request), nil)
		if took := time.Since(started); !a.OK || took != 500*time.Millisecond {
			t.Errorf("took %v: %s", took, a.JSON)
		}
	})
}
