package chain_test

import (
	"context"
	"fmt"
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

// TestRefusalAppliesToAllElements: if the calls of all elements are refused at once, each of them is denied and none waits for approval.
func TestRefusalAppliesToAllElements(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	asked := 0
	caller := &chain.Caller{Approve: func(context.Context, []chain.ApprovalCall) (bool, error) {
		asked++
		return false, nil
	}}
	a := s.runAs(caller, fault.Denied, `{"onError":"continue","steps":[
		{"fn":"guarded.put","forEach":"1..4","concurrency":4,"args":{"k":"$item"}}]}`)
	s.wantCalls()
	elements := a.Get("error.elements").Array()
	for _, e := range elements {
		if e.Get("code").Str != "" && e.Get("code").Str != string(fault.Denied) {
			t.Errorf("element %s, want denied", e.Raw)
		}
	}
	if asked != 1 || len(elements) == 0 || a.Get("approve").Exists() {
		t.Errorf("%d questions, want 1: %s", asked, a.Raw)
	}
}

// TestApprovalIsNotTimed: while a person is asked, neither the time of the chain nor that of the steps around the call runs. A timeout
// names the limit that was exceeded.
func TestApprovalIsNotTimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedEngine(t, nil, func(_ string, args gjson.Result) ([]byte, error) {
			time.Sleep(time.Duration(args.Get("k").Int()) * time.Millisecond)
			return []byte(`{"id":"x"}`), nil
		})
		caller := &chain.Caller{Approve: func(context.Context, []chain.ApprovalCall) (bool, error) {
			time.Sleep(time.Hour)
			return true, nil
		}}
		step := func(ms int) string {
			return fmt.Sprintf(`{"timeoutMs":100,"chain":{"steps":[{"timeoutMs":90,"chain":{"steps":[{"fn":"guarded.put","args":{"k":"%d"}}]}}]}}`,
				ms)
		}
		s.runAs(caller, "", `{"budget":{"maxDurationMs":1000},"steps":[%s,%s]}`, step(20), step(21))
		s.wantCalls(`guarded.put {"k":"20"}`, `guarded.put {"k":"21"}`)
		late := s.runAs(caller, fault.Timeout, `{"steps":[%s]}`, step(95))
		if got := late.Get("error.message").Str; !strings.Contains(got, "within 90ms") {
			t.Errorf("got %s, want a timeout of 90ms", late.Raw)
		}
	})
}

// TestDeadlineMovesWithQuestion: a function, and so an expression, sees the same deadline whether or not a person can be asked. A
// question moves the deadline.
func TestDeadlineMovesWithQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left []time.Duration
		see := steps.Function{Spec: steps.Spec{Name: "see.it", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			ends, _ := ctx.Deadline()
			left = append(left, time.Until(ends))
			return []byte(`1`), nil
		}}
		put := steps.Function{Spec: steps.Spec{Name: "guarded.put", EffectDeclared: true, Effect: steps.Write, Approve: steps.ApproveWrite},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}
		engine := engineOf(t, []steps.Function{see, put}, chain.Options{Journal: newJournal(t, nil)}, false)
		for _, caller := range []*chain.Caller{nil, {Approve: func(context.Context, []chain.ApprovalCall) (bool, error) {
			time.Sleep(time.Hour)
			return true, nil
		}}} {
			text := `{"budget":{"maxDurationMs":5000},"steps":[{"fn":"see.it"},{"fn":"guarded.put"},{"chain":{"steps":[{"fn":"see.it"}]},"timeoutMs":2000}]}`
			engine.Run(t.Context(), []byte(text), caller)
		}
		if want := []time.Duration{5 * time.Second, 5 * time.Second, 2 * time.Second}; !slices.Equal(left, want) {
			t.Errorf("time until the deadline %v, want %v", left, want)
		}
	})
}

// beginWaiting begins a run that waits for approval of its second call.
func beginWaiting(s *scriptedEngine) (run string) {
	return s.run(fault.ApprovalRequired, `{"steps":[
		{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}},
		{"fn":"guarded.put","args":{"k":"2"}}]}`).Get("resume").Str
}

// TestApproveEndedRun: an operator cannot approve a run that was undone or has ended, and changes nothing.
func TestApproveEndedRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end    string // how the run was ended
		status journal.Status
		calls  []string
	}{
		"undone": {`,"undo":true`, journal.Undone, []string{"0 store.put undone", "0 store.remove applied"}},
		"ended":  {`,"steps":[{"fn":"store.put","args":{"k":"1"}}]`, journal.OK, []string{"0 store.put applied"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScriptedEngine(t, nil, nil)
			run := beginWaiting(s)
			s.run("", `{"resume":%q%s}`, run, test.end)
			if err := decide(t.Context(), s.journal, run, true); fault.CodeOf(err) != fault.BadRequest {
				t.Errorf("Approve: %v, want bad_request", err)
			}
			if err := decide(t.Context(), s.journal, run, false); fault.CodeOf(err) != fault.BadRequest {
				t.Errorf("Deny: %v, want bad_request", err)
			}
			if _, err := chain.Waiting(t.Context(), s.journal, run); fault.CodeOf(err) != fault.BadRequest {
				t.Errorf("Waiting: %v, want bad_request", err)
			}
			s.wantRun(run, test.status, test.calls...)
			s.run(fault.TokenExpired, `{"resume":%q}`, run)
		})
	}
}

// TestApproveOnlyShownCalls: an operator approves the calls that were shown, and not others that wait by then.
func TestApproveOnlyShownCalls(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	run := beginWaiting(s)
	shown, err := chain.Waiting(t.Context(), s.journal, run)
	if err != nil || len(shown) != 1 {
		t.Fatalf("Waiting returns %v, %v; want one call", shown, err)
	}
	s.run(fault.ApprovalRequired, `{"resume":%q,"replace":{"1":{"fn":"guarded.put","args":{"k":"another's"}}}}`, run)
	s.wantCalls(`store.put {"k":"1"}`)
	if _, err := chain.Decide(t.Context(), s.journal, run,
		&chain.Ruling{Digest: chain.DigestOf(shown), Approve: []string{"1"}, By: "ann"}); fault.CodeOf(err) != fault.ResumeConflict {
		t.Errorf("Approve of other calls: %v, want resume_conflict", err)
	}
	s.run(fault.ApprovalRequired, `{"resume":%q}`, run)
	s.wantCalls()
	shown, err = chain.Waiting(t.Context(), s.journal, run)
	must(t, err)
	if _, err := chain.Decide(t.Context(), s.journal, run,
		&chain.Ruling{Digest: chain.DigestOf(shown), Approve: []string{"1"}, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	s.run("", `{"resume":%q}`, run)
	s.wantCalls(`guarded.put {"k":"another's"}`)
}

// TestApproveCallsShownTwice: calls that are shown twice can be approved with either answer, but only once.
func TestApproveCallsShownTwice(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, failing("2", refuses))
	first := s.run(fault.ApprovalRequired, `{"steps":[{"fn":"guarded.put","args":{"k":"1"}},{"fn":"guarded.put","args":{"k":"2"}}]}`)
	run, approve := first.Get("resume").Str, first.Get("approve").Str
	again := s.run(fault.ApprovalRequired, `{"resume":%q}`, run)
	if again.Get("approve").Str != approve {
		t.Errorf("approve is %s, and %s when shown again, want the same", approve, again.Get("approve").Str)
	}
	s.run(fault.FunctionFailed, `{"resume":%q,"approve":%q}`, run, approve)
	s.wantCalls(`guarded.put {"k":"1"}`, `guarded.put {"k":"2"}`)
	s.run(fault.Denied, `{"resume":%q,"approve":%q}`, run, approve)
	if b := s.run(fault.ApprovalRequired, `{"resume":%q}`, run); b.Get("approve").Str == approve {
		t.Error("a used approval was issued again")
	}
	s.run(fault.Denied, `{"resume":%q,"approve":%q}`, run, approve)
	s.wantCalls()
}
