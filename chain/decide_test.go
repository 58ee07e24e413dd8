package chain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// decide approves or denies all calls of a run that can be decided about.
func decide(ctx context.Context, j *journal.Journal, run string, yes bool) error {
	calls, err := chain.Waiting(ctx, j, run)
	if err != nil {
		return err
	}
	r := &chain.Ruling{By: "ann"}
	for _, call := range calls {
		if at := call.Get("at").Str; yes {
			r.Approve = append(r.Approve, at)
		} else {
			r.Deny = append(r.Deny, at)
		}
	}
	_, err = chain.Decide(ctx, j, run, r)
	return err
}

func placesOf(calls []gjson.Result) (list []string) {
	for _, call := range calls {
		list = append(list, call.Get("at").Str)
	}
	return list
}

// waitingPlaces returns the places of the calls that can be decided about; nil: there are none.
func (s *scriptedEngine) waitingPlaces(run string) []string {
	calls, _ := chain.Waiting(s.t.Context(), s.journal, run)
	return placesOf(calls)
}

func (s *scriptedEngine) decide(run string, r chain.Ruling) (waiting []string) {
	s.t.Helper()
	r.By = "ann"
	calls, err := chain.Decide(s.t.Context(), s.journal, run, &r)
	must(s.t, err)
	return placesOf(calls)
}

// TestDecideInPart: of the calls that wait, some are approved, some denied, and the others keep waiting. A resume makes each approved call
// once, and tells of a denied one who denied it and why, without asking again, until it is approved.
func TestDecideInPart(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	run := s.run(fault.ApprovalRequired, `{"onError":"continue","steps":[
		{"id":"each","fn":"guarded.put","forEach":"1..4","args":{"k":"$item"}},{"id":"last","fn":"guarded.put","args":{"k":"5"}}]}`).Get("resume").Str
	if left := s.decide(run, chain.Ruling{Approve: []string{"each[0]"}, Deny: []string{"0[1]"}, Reason: "not this one"}); !slices.Equal(left,
		[]string{"0[2]", "0[3]", "1"}) {
		t.Fatalf("%v wait, want the calls that were not decided about", left)
	}
	s.wantRun(run, journal.Waiting)
	if left := s.decide(run, chain.Ruling{Approve: []string{"last"}, Deny: []string{"0[3]"}}); !slices.Equal(left, []string{"0[2]"}) {
		t.Fatalf("%v wait, want 0[2]", left)
	}
	asked := s.run(fault.ApprovalRequired, `{"resume":%q}`, run)
	s.wantCalls(`guarded.put {"k":1}`)
	if calls := asked.Get("error.calls").Array(); !slices.Equal(placesOf(calls), []string{"0[2]"}) {
		t.Errorf("a resume asks about %v, want 0[2]", calls)
	}
	if left := s.decide(run, chain.Ruling{Approve: []string{"each"}}); left != nil {
		t.Errorf("%v wait, want none", left)
	}
	answer := s.run(fault.Denied, `{"resume":%q}`, run)
	s.wantCalls(`guarded.put {"k":3}`, `guarded.put {"k":"5"}`)
	if text := answer.Get("error.message").Str; !strings.Contains(text, "was denied by ann at 20") || !strings.HasSuffix(text, ": not this one") {
		t.Errorf("the answer says %q, want by whom, when and why", text)
	}
	s.run(fault.Denied, `{"resume":%q}`, run)
	s.wantCalls()
	if offered := s.waitingPlaces(run); !slices.Equal(offered, []string{"0[1]", "0[3]"}) {
		t.Errorf("%v can be decided about, want the denied calls", offered)
	}
	s.decide(run, chain.Ruling{Approve: []string{"0"}})
	s.run("", `{"resume":%q}`, run)
	s.wantCalls(`guarded.put {"k":2}`, `guarded.put {"k":4}`)
}

// TestDeniedAtOnce: a call that the caller's user has denied, when asked during the request, is not asked about again. A person can still
// approve it.
func TestDeniedAtOnce(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	asked := 0
	caller := &chain.Caller{Approve: func(context.Context, []chain.ApprovalCall) (bool, error) { asked++; return false, nil }}
	run := s.runAs(caller, fault.Denied, `{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`).Get("resume").Str
	s.runAs(caller, fault.Denied, `{"resume":%q}`, run)
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	s.wantRun(run, journal.Failed)
	s.runAs(caller, fault.Denied, `{"resume":%q,"replace":{"0":{"fn":"guarded.put","args":{"k":"2"}}}}`, run)
	if asked != 2 {
		t.Errorf("asked %d times, want again about another call", asked)
	}
	s.wantCalls()
	s.run(fault.Denied, `{"resume":%q,"replace":{"0":{"fn":"guarded.put","args":{"k":"1"}}}}`, run)
	must(t, decide(t.Context(), s.journal, run, true))
	s.run("", `{"resume":%q}`, run)
	s.wantCalls(`guarded.put {"k":"1"}`)
}

// TestDecideRefused: a ruling about no call, about a call that does not wait, or about one call in two ways changes nothing.
func TestDecideRefused(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	run := beginWaiting(s)
	for name, r := range map[string]chain.Ruling{
		"nothing": {}, "no such place": {Approve: []string{"7"}}, "a part of a number": {Deny: []string{""}}, "both": {Approve: []string{"1"}, Deny: []string{"1"}},
	} {
		if _, err := chain.Decide(t.Context(), s.journal, run, &r); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %v, want bad_request", name, err)
		}
	}
	if _, err := chain.Decide(t.Context(), s.journal, run, &chain.Ruling{Approve: []string{"7"}}); !slices.Equal(fault.From(err, "").Available, []string{"1"}) {
		t.Errorf("%v, want one that names the place 1", err)
	}
	if offered := s.waitingPlaces(run); !slices.Equal(offered, []string{"1"}) {
		t.Errorf("%v wait, want 1", offered)
	}
}

// TestReasonOfDecision: a reason is kept in 300 characters, without secrets.
func TestReasonOfDecision(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	j, err := journal.New(&journal.Memory{}, &journal.Options{Redact: func(text string) string { return strings.ReplaceAll(text, "hunter2", "…") }})
	must(t, err)
	defer j.Close()
	s.journal, s.engine = j, engineOn(t, s.all, chain.Options{Journal: j}, false)
	run := beginWaiting(s)
	s.decide(run, chain.Ruling{Deny: []string{"1"}, Reason: "hunter2" + strings.Repeat(" no", 200)})
	past, err := j.Read(t.Context(), run, nil)
	must(t, err)
	denial := past.Events[slices.IndexFunc(past.Events, func(e journal.Event) bool { return e.Kind == journal.Denied })]
	by, reason := denial.Decision()
	if n := len([]rune(reason)); by != "ann" || !strings.HasPrefix(reason, "… no") || n < 290 || n > 301 {
		t.Errorf("decided by %q: %q (%d characters), want ann and 300 without the secret", by, reason, n)
	}
}

// TestDrawnDecisions: however the calls of a run are decided about, in parts and over several resumes, each call is made at most once, never
// while it is denied or undecided, and the journal tells the same as the model.
func TestDrawnDecisions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := newApprovalEngine(rt)
		defer g.journal.Close()
		n := rapid.IntRange(1, 5).Draw(rt, "calls")
		a := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"onError":"continue","steps":[{"fn":"guarded.put","forEach":"1..%d","args":{"n":"$item"}}]}`, n), nil)
		run := a.Question.Run
		const undecided, approved, denied, made = 0, 1, 2, 3
		state := make([]int, n)
		for range rapid.IntRange(1, 8).Draw(rt, "rounds") {
			calls, err := chain.Waiting(t.Context(), g.journal, run)
			if rapid.Bool().Draw(rt, "decides") && err == nil {
				r := &chain.Ruling{Digest: chain.DigestOf(calls), By: "ann"}
				changes := 0
				for _, call := range calls {
					at := call.Get("at").Str
					i := int(call.Get("args.n").Int()) - 1
					switch rapid.IntRange(0, 2).Draw(rt, at) {
					case 1:
						if state[i] != approved { // a call that is approved stays so
							changes++
						}
						r.Approve, state[i] = append(r.Approve, at), approved
					case 2:
						changes++
						r.Deny, state[i] = append(r.Deny, at), denied
					}
				}
				if _, err := chain.Decide(t.Context(), g.journal, run, r); (err != nil) != (changes == 0) {
					rt.Fatalf("%+v: %v", r, err)
				}
				continue
			}
			g.log = nil
			b := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil)
			stops := false
			for i := range state {
				call := fmt.Sprintf(`guarded.put {"n":%d}`, i+1)
				if slices.Contains(g.log, call) != (state[i] == approved && !stops) {
					rt.Fatalf("%s with the states %v: made %v: %s", call, state, g.log, b.JSON)
				}
				if state[i] == approved && !stops {
					state[i] = made
				}
				stops = stops || state[i] == undecided // a call that waits stops what comes after it
			}
			if b.OK != !slices.ContainsFunc(state, func(s int) bool { return s != made }) {
				rt.Fatalf("the states %v, and the answer %s", state, b.JSON)
			}
			if b.OK {
				return
			}
		}
	})
}
