package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestPickByID: the id of a step chooses no call within the chain of another step, however that names its own steps.
func TestPickByID(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	run := s.run(fault.ApprovalRequired, `{"onError":"continue","steps":[
		{"id":"pay","fn":"guarded.put","args":{"k":"1"}},
		{"id":"each","forEach":"1..2","args":{"n":"$item"},"chain":{"steps":[{"id":"pay","fn":"guarded.put","args":{"k":"$input.n"}}]}},
		{"id":"send","fn":"guarded.put","forEach":"1..2","args":{"k":"$item"}},
		{"chain":{"steps":[{"id":"ship","fn":"guarded.set","args":{"k":"2"}}]}}]}`).Get("resume").Str
	calls, err := chain.Waiting(t.Context(), s.journal, run)
	must(t, err)
	for place, want := range map[string][]string{
		"pay": {"0"}, "0": {"0"}, "1[0].0": {"1[0].0"}, "1[1]": {"1[1].0"}, "send": {"2[0]", "2[1]"}, "send[1]": {"2[1]"},
		"1": {"1[0].0", "1[1].0"}, "ship": nil, "": nil, "2[": nil, "1[0].pay": nil,
	} {
		picked, err := chain.Pick(calls, []string{place})
		if got := placesOf(picked); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q chooses %v, %v; want %v", place, got, err, want)
		}
		if want == nil && (fault.CodeOf(err) != fault.BadRequest || len(fault.From(err, "").Available) != len(calls)) {
			t.Errorf("%q: %v, want bad_request with all places", place, err)
		}
	}
	if left := s.decide(run, chain.Ruling{Approve: []string{"pay"}}); slices.Contains(left, "0") || len(left) != len(calls)-1 {
		t.Errorf("%v wait, want all but 0", left)
	}
}

// TestDecideRest: a ruling may say what becomes of all calls that it does not name. It says nothing of calls of functions that its operator
// does not see, even at a place that it names.
func TestDecideRest(t *testing.T) {
	t.Parallel()
	const text = `{"onError":"continue","steps":[
		{"fn":"guarded.put","forEach":"1..3","args":{"k":"$item"}},{"fn":"guarded.set","args":{"k":"4"}}]}`
	sees := func(function string) bool { return function == "guarded.put" }
	for name, test := range map[string]struct {
		r        chain.Ruling
		approved []string
		left     []string
	}{
		"approve all":         {chain.Ruling{Rest: journal.Approved}, []string{"1", "2", "3", "4"}, nil},
		"deny all":            {chain.Ruling{Rest: journal.Denied}, nil, nil},
		"deny some":           {chain.Ruling{Deny: []string{"0[1]"}, Rest: journal.Approved}, []string{"1", "3", "4"}, nil},
		"approve some":        {chain.Ruling{Approve: []string{"0[1]"}, Rest: journal.Denied}, []string{"2"}, nil},
		"approve all of some": {chain.Ruling{Rest: journal.Approved, Sees: sees}, []string{"1", "2", "3"}, []string{"1"}},
		"deny all of some":    {chain.Ruling{Approve: []string{"0"}, Rest: journal.Denied, Sees: sees}, []string{"1", "2", "3"}, []string{"1"}},
	} {
		s := newScriptedEngine(t, nil, nil)
		run := s.run(fault.ApprovalRequired, text).Get("resume").Str
		if left := s.decide(run, test.r); !slices.Equal(left, test.left) {
			t.Errorf("%s: %v wait, want %v", name, left, test.left)
		}
		past, err := s.journal.Read(t.Context(), run, nil)
		must(t, err)
		decided := map[journal.Kind]int{}
		for i := range past.Events {
			decided[past.Events[i].Kind] += len(past.Events[i].Approvals)
		}
		if approved, denied := decided[journal.Approved], decided[journal.Denied]; approved != len(test.approved) ||
			denied != 4-len(test.approved)-len(test.left) {
			t.Errorf("%s: %d calls are approved and %d denied, want %v approved, %v left, and the others denied", name, approved, denied,
				test.approved, test.left)
		}
	}
	s := newScriptedEngine(t, nil, nil)
	run := s.run(fault.ApprovalRequired, text).Get("resume").Str
	_, err := chain.Decide(t.Context(), s.journal, run, &chain.Ruling{Approve: []string{"1"}, Sees: sees})
	if got := fault.From(err, "").Available; fault.CodeOf(err) != fault.BadRequest || !slices.Equal(got, []string{"0[0]", "0[1]", "0[2]"}) {
		t.Errorf("%v with %v, want bad_request with the places that are seen", err, got)
	}
	none := func(string) bool { return false }
	_, err = chain.Decide(t.Context(), s.journal, run, &chain.Ruling{Rest: journal.Approved, Sees: none})
	if fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("all of nothing: %v, want bad_request", err)
	}
	if offered := s.waitingPlaces(run); len(offered) != 4 {
		t.Errorf("%v wait, want all", offered)
	}
}

// TestDecideEndsWithItsContext: nothing is decided for whoever has gone, and the run can be decided about again at once.
func TestDecideEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	a := s.run(fault.ApprovalRequired, `{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`)
	run := a.Get("resume").Str
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := chain.Decide(ctx, s.journal, run, &chain.Ruling{Rest: journal.Approved}); !errors.Is(err, context.Canceled) {
		t.Errorf("Decide: %v, want that it was cancelled", err)
	}
	_, f := s.engine.DecideOwn(ctx, run, a.Get("approve").Str, &chain.Ruling{Rest: journal.Approved}, nil)
	if fault.CodeOf(f) != fault.Cancelled {
		t.Errorf("DecideOwn: %v, want cancelled", f)
	}
	if left := s.decide(run, chain.Ruling{Rest: journal.Denied}); left != nil {
		t.Errorf("%v wait, want none", left)
	}
}

// TestDenyAgain: who denies again what was denied before tells the agent why, and changes nothing of how the run failed since.
func TestDenyAgain(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, failing("2", refuses))
	run := s.run(fault.ApprovalRequired, `{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`).Get("resume").Str
	s.decide(run, chain.Ruling{Rest: journal.Denied, Reason: "too early"})
	s.run(fault.FunctionFailed, `{"resume":%q,"replace":{"0":{"fn":"store.put","args":{"k":"2"}}}}`, run)
	before, err := s.journal.Read(t.Context(), run, nil)
	must(t, err)
	s.decide(run, chain.Ruling{Rest: journal.Denied, Reason: "never"})
	after, err := s.journal.Read(t.Context(), run, nil)
	must(t, err)
	if after.Row.Status != before.Row.Status || after.Row.Code != fault.FunctionFailed || after.Message != before.Message || after.Message == "" {
		t.Errorf("the run is %s with %s: %q; want %s with %s: %q", after.Row.Status, after.Row.Code, after.Message,
			before.Row.Status, before.Row.Code, before.Message)
	}
	answer := s.run(fault.Denied, `{"resume":%q,"replace":{"0":{"fn":"guarded.put","args":{"k":"1"}}}}`, run)
	if text := answer.Get("error.message").Str; !strings.HasSuffix(text, ": never") {
		t.Errorf("the answer says %q, want the last reason", text)
	}
}

// BenchmarkPick picks each of many calls by its place.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		calls := make([]gjson.Result, n)
		for i := range calls {
			calls[i] = gjson.Parse(fmt.Sprintf(`{"at":"0[%d]","id":"each","fn":"guarded.put","args":{"k":%d}}`, i, i))
		}
		places := placesOf(calls)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if picked, err := chain.Pick(calls, places); err != nil || len(picked) != n {
					b.Fatal(len(picked), err)
				}
			}
		})
	}
}
