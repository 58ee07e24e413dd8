package chain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// questions returns what a run asks, and whether it was decided about.
func (g *approvalEngine) questions(t *testing.T, run string) (list []chain.OpenQuestion, decided bool) {
	t.Helper()
	list, decided, f := g.engine.OpenQuestions(t.Context(), run, nil)
	if f != nil {
		t.Fatal(f)
	}
	return list, decided
}

// TestOpenQuestions: a run asks about the calls of each function apart. A reply settles its own question and no other, whichever process
// records it, and the run goes on when it is resumed.
func TestOpenQuestions(t *testing.T) {
	t.Parallel()
	g := newApprovalEngine(t)
	defer g.journal.Close()
	first := g.engine.Run(t.Context(), []byte(`{"onError":"continue","lite":true,"steps":[`+
		`{"fn":"guarded.put","forEach":"1..3","args":{"k":"$item"}},`+
		`{"id":"last","fn":"guarded.set","args":{"k":"s"},"undo":{"fn":"guarded.put","args":{"k":"u"}}}]}`), nil)
	run := first.Question.Run
	questions, decided := g.questions(t, run)
	if len(questions) != 2 || decided || len(questions[0].Calls) != 3 || questions[0].Calls[1].StepPath != "0[1]" ||
		string(questions[1].Calls[0].JSON()) != `{"at":"1","id":"last","fn":"guarded.set","effect":"write","args":{"k":"s"},`+
			`"undo":{"fn":"guarded.put","args":{"k":"u"}}}` {
		t.Fatalf("questions %+v, decided %t; want one for each function, undecided", questions, decided)
	}
	put, set := questions[0].Key, questions[1].Key
	for name, refused := range map[string]*fault.Error{
		"a place of another question": g.engine.Reply(t.Context(), run, map[string]chain.Reply{put: {Yes: true, Deny: []string{"1"}}}, nil),
		"another caller":              g.engine.Reply(t.Context(), run, map[string]chain.Reply{put: {Yes: true}}, &chain.Caller{ID: "eve"}),
	} {
		want := map[bool]fault.Code{true: fault.TokenExpired, false: fault.BadRequest}[name == "another caller"]
		if refused == nil || refused.Code != want {
			t.Errorf("%s: %v, want %s", name, refused, want)
		}
	}
	reply := func(replies map[string]chain.Reply) {
		t.Helper()
		if f := g.engine.Reply(t.Context(), run, replies, nil); f != nil {
			t.Fatal(f)
		}
	}
	reply(map[string]chain.Reply{"never asked": {Yes: true}})
	reply(map[string]chain.Reply{put: {Yes: true, Deny: []string{"0[1]"}, Reason: "not this one"}})
	if left, decided := g.questions(t, run); len(left) != 1 || left[0].Key != set || decided {
		t.Fatalf("after the first reply %+v, decided %t; want the other question under its key", left, decided)
	}
	reply(map[string]chain.Reply{put: {}, set: {Yes: true}})
	if left, decided := g.questions(t, run); len(left) != 0 || !decided {
		t.Fatalf("after both replies %+v, decided %t; want none, decided", left, decided)
	}
	reply(map[string]chain.Reply{set: {}})
	a := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil)
	if want := []string{`guarded.put {"k":1}`, `guarded.put {"k":3}`, `guarded.set {"k":"s"}`}; !slices.Equal(g.log, want) {
		t.Errorf("calls %q, want %q: %s", g.log, want, a.JSON)
	}
	if _, _, f := g.engine.OpenQuestions(t.Context(), run, &chain.Caller{ID: "eve"}); f == nil || f.Code != fault.TokenExpired {
		t.Errorf("questions for another caller: %v, want token_expired", f)
	}
}

// TestOpenQuestionAgain: a call that was approved, and failed, waits again under another key; the earlier reply does not count for it.
func TestOpenQuestionAgain(t *testing.T) {
	t.Parallel()
	g := newApprovalEngine(t)
	defer g.journal.Close()
	run := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put","args":{"k":"fail"}}]}`), nil).Question.Run
	yes := map[string]chain.Reply{}
	for n := range 3 {
		questions, _ := g.questions(t, run)
		if len(questions) != 1 || yes[questions[0].Key].Yes {
			t.Fatalf("time %d: %+v, want one question under a new key", n, questions)
		}
		if f := g.engine.Reply(t.Context(), run, yes, nil); f != nil {
			t.Fatal(f)
		}
		if again, decided := g.questions(t, run); len(again) != 1 || decided {
			t.Fatalf("time %d: the earlier replies settle %+v, decided %t", n, again, decided)
		}
		yes[questions[0].Key] = chain.Reply{Yes: true}
		if f := g.engine.Reply(t.Context(), run, yes, nil); f != nil {
			t.Fatal(f)
		}
		if a := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil); a.Error.Code != fault.FunctionFailed {
			t.Fatalf("time %d: %s, want function_failed", n, a.JSON)
		}
		g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil) // it is made again, and waits
	}
	if len(g.log) != 3 {
		t.Errorf("calls %q, want one for each approval", g.log)
	}
}

// TestDeniedSinceItStopped: a run whose calls were all denied goes on when it is resumed; one whose user denied while it ran has ended.
func TestDeniedSinceItStopped(t *testing.T) {
	t.Parallel()
	g := newApprovalEngine(t)
	defer g.journal.Close()
	request := []byte(`{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`)
	run := g.engine.Run(t.Context(), request, nil).Question.Run
	questions, _ := g.questions(t, run)
	if f := g.engine.Reply(t.Context(), run, map[string]chain.Reply{questions[0].Key: {Reason: "too late"}}, nil); f != nil {
		t.Fatal(f)
	}
	if _, decided := g.questions(t, run); !decided {
		t.Error("a run whose call was denied is not told to be decided")
	}
	a := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil)
	if a.Error.Code != fault.Denied {
		t.Errorf("resumed: %s, want denied", a.JSON)
	}
	if _, decided := g.questions(t, run); decided {
		t.Error("a run that was resumed is told to be decided")
	}
	again := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), &chain.Caller{IfHalted: true})
	if again.Error == nil || again.Error.Code != fault.Busy {
		t.Errorf("resumed though it was resumed already: %s, want busy", again.JSON)
	}
	no := &chain.Caller{Approve: func(context.Context, []chain.ApprovalCall) (bool, error) { return false, nil }}
	denied := gjson.GetBytes(g.engine.Run(t.Context(), request, no).JSON, "resume").Str
	if _, decided := g.questions(t, denied); decided || denied == "" {
		t.Errorf("run %q, denied while it ran, is told to be decided", denied)
	}
}

// TestStopWaiting: a run that waits can be ended without a decision. It can be resumed, and waits again.
func TestStopWaiting(t *testing.T) {
	t.Parallel()
	g := newApprovalEngine(t)
	defer g.journal.Close()
	run := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`), nil).Question.Run
	if f := g.engine.StopWaiting(t.Context(), run, &chain.Caller{ID: "eve"}); f == nil || f.Code != fault.TokenExpired {
		t.Errorf("by another caller: %v, want token_expired", f)
	}
	for range 2 { // the second time it waits for nothing
		if f := g.engine.StopWaiting(t.Context(), run, nil); f != nil {
			t.Fatal(f)
		}
		if left, decided := g.questions(t, run); len(left) != 0 || decided {
			t.Errorf("it still asks %+v, decided %t", left, decided)
		}
	}
	if a := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil); a.Error.Code != fault.ApprovalRequired || len(g.log) > 0 {
		t.Errorf("resumed: calls %q, %s; want approval_required", g.log, a.JSON)
	}
}

// FuzzReply replies under arbitrary keys, about arbitrary places. Only a reply under the key of the question lets a call be made, and none
// at a denied place.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"KEY", "KEY ", "", "PROOF", "APPROVE", "key"} {
		f.Add(seed, "0[1]", true)
		f.Add(seed, "0", false)
	}
	f.Add("KEY", "9", true)
	f.Add("KEY", "0[", true)
	g := newApprovalEngine(f)
	f.Cleanup(func() { g.journal.Close() })
	f.Fuzz(func(t *testing.T, key, place string, yes bool) {
		g.log = nil
		a := g.engine.Run(t.Context(), []byte(`{"onError":"continue","steps":[
			{"fn":"guarded.put","forEach":"1..2","args":{"k":"$item"}}]}`), nil)
		run := a.Question.Run
		questions, _ := g.questions(t, run)
		right := key == "KEY"
		switch key {
		case "KEY":
			key = questions[0].Key
		case "PROOF":
			key = a.Question.Proof
		case "APPROVE":
			key = gjson.GetBytes(a.JSON, "approve").Str
		}
		refused := g.engine.Reply(t.Context(), run, map[string]chain.Reply{key: {Yes: yes, Deny: []string{place}}}, nil)
		g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), nil)
		var want []string
		if denies := map[string]string{"0[0]": "1", "0[1]": "2"}[place]; right && yes && denies != "" {
			want = []string{`guarded.put {"k":` + map[string]string{"1": "2", "2": "1"}[denies] + `}`}
		}
		known := place == "0" || place == "0[0]" || place == "0[1]"
		if !slices.Equal(g.log, want) || right && !known && (refused == nil || refused.Code != fault.BadRequest) || !right && refused != nil {
			t.Fatalf("a reply under %q, yes %t, deny %q: calls %q and %v, want calls %q", key, yes, place, g.log, refused, want)
		}
	})
}
