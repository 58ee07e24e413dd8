package chain_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestAwaitDecision: a caller's wait for a decision about its run ends with the decision, or with its context. There is none about another's.
func TestAwaitDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedEngine(t, nil, nil)
		run := s.run(fault.ApprovalRequired, `{"steps":[{"fn":"guarded.put","args":{"k":"1"}},{"fn":"guarded.put","args":{"k":"2"}}]}`).Get("resume").Str
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		await := func(ctx context.Context, run, caller string) (decided bool, took time.Duration) {
			began := time.Now()
			decided = s.engine.AwaitDecision(ctx, run, &chain.Caller{ID: caller})
			return decided, time.Since(began)
		}
		if decided, took := await(ctx, run, "eve"); decided || took != 0 {
			t.Errorf("another's run: %t after %v", decided, took)
		}
		if decided, took := await(ctx, "run_none", ""); decided || took != 0 {
			t.Errorf("no run: %t after %v", decided, took)
		}
		short, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		if decided, took := await(short, run, ""); decided || took != time.Minute {
			t.Errorf("without a decision: %t after %v", decided, took)
		}
		time.AfterFunc(time.Second, func() { s.decide(run, chain.Ruling{Approve: []string{"0"}}) })
		time.AfterFunc(2*time.Second, func() { s.decide(run, chain.Ruling{Deny: []string{"1"}}) })
		if decided, took := await(ctx, run, ""); !decided || took < 2*time.Second || took > time.Minute {
			t.Errorf("decided in two parts: %t after %v, want true after 2 s", decided, took)
		}
		if decided, took := await(ctx, run, ""); !decided || took != 0 {
			t.Errorf("decided before: %t after %v", decided, took)
		}
	})
}
