package chain_test

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// reportedWrites checks what an answer tells of writes: the elements, or else the place or step, of each entry with its outcome.
func reportedWrites(t *testing.T, answer gjson.Result, want string) {
	t.Helper()
	got := ""
	for _, e := range answer.Get("writes").Array() {
		position := e.Get("in").Str
		if position == "" {
			position = e.Get("step").Raw
		}
		if elements := e.Get("elements").Str; elements != "" {
			position += "[" + elements + "]"
		}
		if count := e.Get("count").Raw; count != "" {
			position += "×" + count
		}
		got += position + " " + e.Get("outcome").Str + "; "
	}
	if got != want {
		t.Errorf("writes are told as %q, not %q", got, want)
	}
}

const undoMember = `"undo":{"fn":"store.remove","args":{"id":"$result.id"}}`

// failingCalls lets calls succeed, with k as the id of what they make, except those with an error: by k, or by the id to remove.
func failingCalls(errs map[string]func() error) func(string, gjson.Result) ([]byte, error) {
	return func(_ string, args gjson.Result) ([]byte, error) {
		k := args.Get("k").Str
		if err := errs[k+args.Get("id").Str]; err != nil {
			return nil, err()
		}
		return []byte(`{"id":"of ` + k + `"}`), nil
	}
}

// TestUndoOfElements: of elements, and of the rounds of a repeat, those are told to be undone that are.
func TestUndoOfElements(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failingCalls(map[string]func() error{"fail": refuses, "of b": refuses, "of c": lost}))
	a := s.run(fault.FunctionFailed, `{"onError":"undo","steps":[
		{"fn":"store.put","forEach":"['a','b','c','d']","args":{"k":"$item"},%s},
		{"fn":"store.put","args":{"k":"fail"}}]}`, undoMember)
	s.called(`store.put {"k":"a"}`, `store.put {"k":"b"}`, `store.put {"k":"c"}`, `store.put {"k":"d"}`, `store.put {"k":"fail"}`,
		`store.remove {"id":"of d"}`, `store.remove {"id":"of c"}`, `store.remove {"id":"of b"}`, `store.remove {"id":"of a"}`)
	reportedWrites(t, a, "0[0,3] undone; 0[1] applied; 0[2] sent_unknown; 1 failed; ")

	n := 0
	s.ends = func(_ string, args gjson.Result) ([]byte, error) {
		if args.Get("id").Int() == 2 {
			return nil, refuses()
		}
		n++
		return fmt.Appendf(nil, `{"id":%d}`, n), nil
	}
	a = s.run(fault.LimitExceeded, `{"onError":"undo","steps":[
		{"fn":"store.put","args":{"n":"$result?.id"},"repeat":{"until":"$result.id > 9","max":3},%s}]}`, undoMember)
	reportedWrites(t, a, "0 applied; 0×2 undone; ")
}

// TestUndoInDoubt: an undo of which nobody knows is not begun again until it is said what holds.
func TestUndoInDoubt(t *testing.T) {
	t.Parallel()
	for outcome, calls := range map[string][]string{"applied": nil, "not_sent": {`store.remove {"id":"of a"}`}} {
		s := newScripted(t, nil, failingCalls(map[string]func() error{"fail": refuses, "of a": lost}))
		a := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"a"},%s},{"fn":"store.put","args":{"k":"fail"}}]}`, undoMember)
		run := a.Get("resume").Str
		s.run(fault.Timeout, `{"resume":%q,"undo":true}`, run)
		s.called(`store.put {"k":"a"}`, `store.put {"k":"fail"}`, `store.remove {"id":"of a"}`)
		a = s.run(fault.ResumeConflict, `{"resume":%q,"undo":true}`, run)
		if left := a.Get("result.left").Raw; left != `[{"at":"0","fn":"store.put","outcome":"sent_unknown"}]` {
			t.Errorf("left: %s", left)
		}
		s.run(fault.BadRequest, `{"resume":%q,"undo":true,"assume":{"7":"applied"}}`, run)
		s.called()
		s.ends = nil
		s.run("", `{"resume":%q,"undo":true,"assume":{"0":%q}}`, run, outcome)
		s.called(calls...)
	}
}

// TestUndoInDoubtWithin: nor does the chain around it begin it again, and a resume does not take its call for done.
func TestUndoInDoubtWithin(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failingCalls(map[string]func() error{"after a": refuses, "of a": lost}))
	a := s.run(fault.FunctionFailed, `{"onError":"undo","steps":[{"fn":"chain.careful","args":{"k":"a"}}]}`)
	reportedWrites(t, a, "0.0 sent_unknown; 0.1 failed; ")
	s.called(`store.put {"k":"a"}`, `store.put {"k":"after a"}`, `store.remove {"id":"of a"}`)

	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"chain.careful","args":{"k":"a"}},{"fn":"store.get"}]}`).Get("resume").Str
	s.called(`store.put {"k":"a"}`, `store.put {"k":"after a"}`, `store.remove {"id":"of a"}`)
	s.ends = nil
	a = s.run(fault.ResumeConflict, `{"resume":%q}`, run)
	reportedWrites(t, a, "0.0 sent_unknown; ")
	s.called()
	s.run("", `{"resume":%q,"assume":{"0.0":"applied"}}`, run)
	s.called(`store.put {"k":"a"}`, `store.put {"k":"after a"}`, `store.get {}`)
}

// TestWritesOfEarlierParts: what an earlier part of a run has written is told of it, though a resume does not come to it.
func TestWritesOfEarlierParts(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failingCalls(map[string]func() error{"b": lost, "get": refuses}))
	run := s.run(fault.Timeout, `{"onError":"continue","steps":[
		{"fn":"store.put","forEach":"['a','b','c']","args":{"k":"$item"}},
		{"fn":"store.put","args":{"k":"d"}}]}`).Get("resume").Str
	a := s.run(fault.ResumeConflict, `{"resume":%q,"onError":"stop"}`, run)
	reportedWrites(t, a, "0[0,2] applied; 0[1] sent_unknown; 1 applied; ")
	a = s.run(fault.FunctionFailed, `{"resume":%q,"steps":[{"fn":"store.get","args":{"k":"get"}},
		{"fn":"store.put","forEach":"['a','b','c']","args":{"k":"$item"}}]}`, run)
	reportedWrites(t, a, "0[0,2] applied; 0[1] sent_unknown; 1 applied; ")
}

// TestUnknownIsNotRefused: a call that is safe to repeat, and of which nobody knows, is not told to be failed or not sent because it was when
// it was repeated.
func TestUnknownIsNotRefused(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failingCalls(map[string]func() error{"a": lost}))
	run := s.run(fault.Timeout, `{"steps":[{"fn":"store.set","args":{"k":"a"}}]}`).Get("resume").Str
	s.ends = failingCalls(map[string]func() error{"a": refuses})
	reportedWrites(t, s.run(fault.FunctionFailed, `{"resume":%q}`, run), "0 sent_unknown; ")
	s.ended(run, journal.Failed, "0 store.set sent_unknown")
}

// TestDoubtIsNoConflict: a chain that has not changed is not told to leave out calls, because there is a doubt about one, or because elements
// that ran side by side have read the same.
func TestDoubtIsNoConflict(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failingCalls(map[string]func() error{"a": refuses, "b": lost}))
	run := s.run(fault.FunctionFailed, `{"onError":"continue","steps":[{"fn":"store.put","forEach":"['a','b','c']","args":{"k":"$item"}}]}`).Get("resume").Str
	s.called(`store.put {"k":"a"}`, `store.put {"k":"b"}`, `store.put {"k":"c"}`)
	s.ends = nil
	a := s.run(fault.ResumeConflict, `{"resume":%q}`, run)
	s.called(`store.put {"k":"a"}`)
	reportedWrites(t, a, "0[0,2] applied; 0[1] sent_unknown; ")
	if available := a.Get("error.available").Raw; available != `["0[1]"]` {
		t.Errorf("the conflict is about %s", available)
	}

	var reads atomic.Int32
	written := make(chan bool)
	s.ends = func(function string, _ gjson.Result) ([]byte, error) {
		switch {
		case function == "store.put":
			close(written)
		case reads.Add(1) == 1:
			<-written // by the other element, whose read is the first that ends
			return nil, refuses()
		}
		return []byte(`{"id":"x"}`), nil
	}
	run = s.run(fault.FunctionFailed, `{"onError":"continue","steps":[{"forEach":"['a','b']","concurrency":2,"args":{"k":"$item"},
		"chain":{"steps":[{"fn":"store.get"},{"fn":"store.put","args":{"k":"$input.k","of":"$0.id"}}]}}]}`).Get("resume").Str
	s.ends = nil
	s.run("", `{"resume":%q}`, run)
	if n := len(s.log); n != 5 {
		t.Errorf("called %q", s.log)
	}
}

// TestUndoOfAssumed: a call of which a caller has said that it was applied is taken back, and once.
func TestUndoOfAssumed(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failingCalls(map[string]func() error{"after a": refuses}))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"chain.careful","args":{"k":"a"}}]}`).Get("resume").Str
	s.called(`store.put {"k":"a"}`, `store.put {"k":"after a"}`, `store.remove {"id":"of a"}`)
	s.ends = failingCalls(map[string]func() error{"a": lost})
	s.run(fault.Timeout, `{"resume":%q}`, run) // it is made again
	s.called(`store.put {"k":"a"}`)
	s.run("", `{"resume":%q,"undo":true,"assume":{"0.0":"applied"}}`, run)
	s.called(`store.remove {"id":"of a"}`)
	a := s.run("", `{"resume":%q,"undo":true}`, run)
	s.called()
	if got := a.Get("result").Raw; got != `{"undone":0,"left":[]}` {
		t.Errorf("the second undo: %s", got)
	}
}

// TestUndoneBeyondBudget: where an answer has no room for each write, their number is told by outcome, of those that were undone too.
func TestUndoneBeyondBudget(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, func(_ string, args gjson.Result) ([]byte, error) {
		if k := args.Get("k").Int(); k == 60 || args.Get("id").Int()%10 == 9 {
			return nil, refuses()
		}
		return []byte(`{"id":` + args.Get("k").Raw + `}`), nil
	})
	var list []string
	for k := range 61 {
		list = append(list, fmt.Sprintf(`{"fn":"store.put","args":{"k":%d},%s}`, k, undoMember))
	}
	a := s.run(fault.FunctionFailed, `{"lite":true,"budget":{"maxTotalTokens":200},"onError":"undo","steps":[%s]}`, strings.Join(list, ","))
	sums := map[string]int{}
	entries := a.Get("writes").Array()
	for _, e := range entries {
		sums[e.Get("outcome").Str] += callsOf(e)
	}
	if !maps.Equal(sums, map[string]int{"undone": 54, "applied": 6, "failed": 1}) || entries[len(entries)-1].Get("step").Exists() {
		t.Errorf("%v are told: %s", sums, a.Raw)
	}
}
