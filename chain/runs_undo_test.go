package chain_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestUndoWaitsForApproval: a chain that undoes its failures undoes nothing while it waits for approval, and goes on with it.
func TestUndoWaitsForApproval(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, nil)
	a := s.run(fault.ApprovalRequired, `{"onError":"undo","steps":[
		{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}},
		{"fn":"guarded.put","args":{"k":"2"}}]}`)
	s.called(`store.put {"k":"1"}`)
	s.ended(a.Get("resume").Str, journal.Waiting, "0 store.put applied")
	s.run("", `{"resume":%q,"approve":%q}`, a.Get("resume").Str, a.Get("approve").Str)
	s.called(`guarded.put {"k":"2"}`)
}

// TestUndoThatEqualsACall: what takes a call back is no call of the chain, though it has the function and arguments of one.
func TestUndoThatEqualsACall(t *testing.T) {
	t.Parallel()
	refuse := false
	s := newScripted(t, nil, func(function string, args gjson.Result) ([]byte, error) {
		if args.Get("k").Str == "fail" || function == "store.remove" && refuse {
			return nil, refuses()
		}
		return []byte(`{"id":"x"}`), nil
	})
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.remove","args":{"id":"x"}},
		{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}},
		{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.called(`store.remove {"id":"x"}`, `store.put {"k":"1"}`, `store.put {"k":"fail"}`)
	refuse = true
	a := s.run(fault.FunctionFailed, `{"resume":%q,"undo":true}`, run)
	s.called(`store.remove {"id":"x"}`)
	if n := len(a.Get("result.left").Array()); a.Get("result.undone").Int() != 0 || n != 2 {
		t.Errorf("%s", a.Raw)
	}
	s.ended(run, journal.Undone, "0 store.remove applied", "1 store.put applied", "2 store.put failed", "1 store.remove failed")
}

// TestUndoThatEqualsAFailedCall: nor is it a further attempt at a call of the chain that failed.
func TestUndoThatEqualsAFailedCall(t *testing.T) {
	t.Parallel()
	n := 0
	s := newScripted(t, nil, func(function string, args gjson.Result) ([]byte, error) {
		if n++; n == 1 || args.Get("k").Str == "fail" {
			return nil, refuses()
		}
		return []byte(`{"id":"x"}`), nil
	})
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.set","args":{"by":-1},"orElse":0},
		{"fn":"store.put","args":{"by":1},"undo":{"fn":"store.set","args":{"by":-1}}},{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.called(`store.set {"by":-1}`, `store.put {"by":1}`, `store.put {"k":"fail"}`)
	s.run("", `{"resume":%q,"undo":true}`, run)
	s.called(`store.set {"by":-1}`)
	s.ended(run, journal.Undone, "0 store.set failed", "1 store.put undone", "2 store.put failed", "1 store.set applied")
}

// TestPartialUndo: what could not be taken back can be tried again, what was is not taken back twice, and the run's key begins no other
// run.
func TestPartialUndo(t *testing.T) {
	t.Parallel()
	away := true
	s := newScripted(t, nil, func(function string, args gjson.Result) ([]byte, error) {
		switch {
		case args.Get("k").Str == "fail":
			return nil, refuses()
		case args.Get("id").Str == "1" && away:
			return nil, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the store is away"}
		}
		return []byte(`{"id":"` + args.Get("k").Str + `"}`), nil
	})
	const undo = `"undo":{"fn":"store.remove","args":{"id":"$result.id"}}`
	run := s.run(fault.FunctionFailed, `{"key":"K","steps":[{"fn":"store.put","args":{"k":"1"},%s},{"fn":"store.put","args":{"k":"2"},%s},
		{"fn":"store.put","args":{"k":"3"}},{"fn":"store.put","args":{"k":"fail"}}]}`, undo, undo).Get("resume").Str
	s.called(`store.put {"k":"1"}`, `store.put {"k":"2"}`, `store.put {"k":"3"}`, `store.put {"k":"fail"}`)
	check := func(undone, left string) {
		t.Helper()
		a := s.run(fault.NotSupported, `{"resume":%q,"undo":true}`, run) // nothing takes the third back
		if got := a.Get("result.undone").Raw; got != undone {
			t.Errorf("undone: %s, not %s", got, undone)
		}
		if got := a.Get("result.left.#.at").Raw; got != left {
			t.Errorf("left: %s, not %s", got, left)
		}
	}
	check("1", `["2","0"]`)
	s.called(`store.remove {"id":"2"}`, `store.remove {"id":"1"}`)
	away = false
	check("1", `["2"]`)
	s.called(`store.remove {"id":"1"}`)
	check("0", `["2"]`)
	s.run(fault.TokenExpired, `{"resume":%q}`, run)
	s.run(fault.TokenExpired, `{"key":"K","steps":[{"fn":"store.put","args":{"k":"1"}}]}`)
	s.called()
}

// TestUndoOfWhichNobodyKnows: an undo of which nobody knows whether it was done is not tried again.
func TestUndoOfWhichNobodyKnows(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, func(function string, args gjson.Result) ([]byte, error) {
		if function == "store.remove" {
			return nil, lost()
		}
		if args.Get("k").Str == "fail" {
			return nil, refuses()
		}
		return []byte(`{"id":"x"}`), nil
	})
	run := s.run(fault.FunctionFailed, `{"steps":[
		{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}},
		{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.run(fault.Timeout, `{"resume":%q,"undo":true}`, run)
	s.called(`store.put {"k":"1"}`, `store.put {"k":"fail"}`, `store.remove {"id":"x"}`)
	s.run(fault.ResumeConflict, `{"resume":%q,"undo":true}`, run)
	s.called()
	s.ended(run, journal.Undone, "0 store.put applied", "1 store.put failed", "0 store.remove sent_unknown")
}

// TestUndoThatCannotBeMade: a call whose undo refers to what its result lacks stays, and why is told.
func TestUndoThatCannotBeMade(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("fail", refuses))
	a := s.run(fault.FunctionFailed, `{"onError":"undo","steps":[
		{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.nowhere"}}},
		{"fn":"store.put","args":{"k":"fail"}}]}`)
	s.called(`store.put {"k":"1"}`, `store.put {"k":"fail"}`)
	message := a.Get("error.message").Str
	if !strings.Contains(message, "0 undone, 1 not: store.put at 0 has an undo that cannot be made: ") ||
		!strings.Contains(message, "nowhere") {
		t.Error(message)
	}
}
