package chain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// careful takes back what it has made if its second step is told to fail.
const careful = `{"onError":"undo","params":{"key":{"type":"string"},"fail":{"type":"string","default":""}},
	"steps":[{"fn":"bin.make","args":{"key":"$input.key"}},{"fn":"bin.put","args":{"key":"${$input.key}-2","fail":"$input.fail"}}]}`

func carefulEngine(t *testing.T) (*chain.Engine, *bin) {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	b := &bin{items: map[string]string{}}
	return savedEngine(t, chain.Options{Journal: j}, b, "careful", careful), b
}

// TestUndoOfElementsAtOnce: elements side by side each take back what they have made, while the others go on.
func TestUndoOfElementsAtOnce(t *testing.T) {
	t.Parallel()
	e, b := carefulEngine(t)
	a := e.Run(context.Background(), []byte(`{"onError":"continue","steps":[{"fn":"chain.careful","forEach":"1..200","concurrency":8,
		"args":{"key":"k${$item}","fail":"no"}}]}`), nil)
	if a.OK || len(b.items) > 0 || strings.Count(strings.Join(b.log, "\n"), "bin.remove ") != 200 {
		t.Errorf("%d items are left: %.500s", len(b.items), a.JSON)
	}
}

// TestUndoOfOwnCalls: a saved chain that fails takes back its own calls, wherever an earlier part of the run had them.
func TestUndoOfOwnCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mended string
		left   []string
	}{
		"another's at its place": {`{"fn":"chain.careful","args":{"key":"new","fail":"no"}},{"fn":"chain.careful","args":{"key":"a"}}`, []string{"a", "a-2"}},
		"its own, made elsewhere": {`{"expr":"1"},{"chain":{"steps":[{"fn":"bin.make","args":{"key":"other"}},{"fn":"chain.careful","args":{"key":"a","fail":"no"}}]}}`,
			[]string{"a-2", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, b := carefulEngine(t)
			a := e.Run(context.Background(), []byte(`{"steps":[{"fn":"chain.careful","args":{"key":"a"}},{"fn":"bin.put","args":{"key":"x","fail":"no"}}]}`), nil)
			run := gjson.GetBytes(a.JSON, "resume").Str
			a = e.Run(context.Background(), fmt.Appendf(nil, `{"resume":%q,"assume":{"0.1":"applied"},"steps":[%s]}`, run, test.mended), nil)
			if got := slices.Sorted(maps.Keys(b.items)); a.OK || !slices.Equal(got, test.left) {
				t.Errorf("left are %q, want %q: %s", got, test.left, a.JSON)
			}
		})
	}
}

// TestConflictUndoesNothing: who sends another chain by mistake loses nothing of the run.
func TestConflictUndoesNothing(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, nil)
	const first = `{"key":"deploy","onError":"undo","steps":[{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}}]}`
	s.run("", first)
	s.called(`store.put {"k":"1"}`)
	a := s.run(fault.ResumeConflict, `{"key":"deploy","steps":[{"fn":"store.put","args":{"k":"2"}}]}`)
	if applied := a.Get(`writes.#(at=="0").outcome`).Str; applied != "applied" {
		t.Errorf("%s", a.Raw)
	}
	s.run("", first)
	s.called()
}

// TestReadOnlyUndoesNothing: a tool that only reads takes nothing back, and there is no dry run of an undo.
func TestReadOnlyUndoesNothing(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("fail", refuses))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove"}},{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.called(`store.put {"k":"1"}`, `store.put {"k":"fail"}`)
	s.runAs(&chain.Caller{Override: chain.Override{ReadOnly: true}}, fault.Denied, `{"resume":%q,"undo":true}`, run)
	s.run(fault.BadRequest, `{"resume":%q,"undo":true,"dryRun":true}`, run)
	s.called()
	s.run("", `{"resume":%q,"undo":true}`, run)
	s.called(`store.remove {}`)
}

// TestRetryOfRecalled: a failure that the journal tells of is not tried again.
func TestRetryOfRecalled(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, func(_ string, args gjson.Result) ([]byte, error) {
		if k := args.Get("k").Str; k == "primary" || k == "fail" {
			return nil, refuses()
		}
		return []byte(`{}`), nil
	})
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.set","args":{"k":"primary"},"retry":{"max":1},"orElse":null},
		{"fn":"store.put","args":{"k":"fallback"},"when":"$0 == null"},{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.called(`store.set {"k":"primary"}`, `store.set {"k":"primary"}`, `store.put {"k":"fallback"}`, `store.put {"k":"fail"}`)
	s.ends = nil
	s.run("", `{"resume":%q}`, run)
	s.called(`store.put {"k":"fail"}`)
}

// TestAssumeOfDoneBesideFailed: of calls at one place, what is said is meant of the one that was done.
func TestAssumeOfDoneBesideFailed(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("A", refuses))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"A"}}]}`).Get("resume").Str
	s.ends = failing("fail", refuses)
	s.run(fault.FunctionFailed, `{"resume":%q,"steps":[{"fn":"store.put","args":{"k":"B"}},{"fn":"store.put","args":{"k":"fail"}}]}`, run)
	s.called(`store.put {"k":"A"}`, `store.put {"k":"B"}`, `store.put {"k":"fail"}`)
	s.run("", `{"resume":%q,"assume":{"0":"not_sent"},"steps":[{"fn":"store.put","args":{"k":"C"}}]}`, run)
	s.called(`store.put {"k":"C"}`)
}

// TestKeyAfterUndo: a call that was taken back has another idempotency key when it is made again.
func TestKeyAfterUndo(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	again := func(undone bool) {
		run := j.Begin(&journal.Start{Hash: func() string { return "" }, Lookup: true, Writes: true})
		pay := &journal.Call{StepPath: "0", Function: "pay", Effect: "write", KeyFor: -1}
		run.Prepare(pay)
		first := pay.IdempotencyKey()
		if err := pay.Begin(); err != nil {
			t.Fatal(err)
		}
		_ = pay.End(&journal.Event{Outcome: fault.Applied})
		if undone {
			of := run.Writes("")[0].Ended
			back := &journal.Call{StepPath: "0", Function: "refund", Effect: "write", Undoes: of}
			run.Prepare(back)
			if err := back.Begin(); err != nil {
				t.Fatal(err)
			}
			_ = back.End(&journal.Event{Outcome: fault.Applied})
		}
		_ = run.EndUnfinished(journal.Failed, "")
		taken, err := j.Acquire(context.Background(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		repeated := &journal.Call{StepPath: "0", Function: "pay", Effect: "write", KeyFor: -1}
		j.Resume(taken, &journal.Start{Hash: func() string { return "" }, Writes: true}).Prepare(repeated)
		if (repeated.IdempotencyKey() == first) == undone {
			t.Errorf("undone %t: %s, then %s", undone, first, repeated.IdempotencyKey())
		}
	}
	again(false)
	again(true)
}

// TestApprovalHidesSecrets: neither the arguments that wait nor those of their undo show a secret, whoever the function is of.
func TestApprovalHidesSecrets(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, nil)
	a := s.run(fault.ApprovalRequired, `{"steps":[{"fn":"guarded.put","args":{"k":"1","password":"hunter2"},"undo":{"fn":"store.put","args":{"password":"hunter2","was":"$result.id"}}}]}`)
	call := a.Get("error.calls.0")
	if strings.Contains(a.Raw, "hunter2") || call.Get("args.k").Str != "1" || call.Get("undo.args.was").Str != "$result.id" ||
		call.Get("args.password.secret").Str == "" || call.Get("args.password.secret").Str != call.Get("undo.args.password.secret").Str {
		t.Errorf("%s", a.Raw)
	}
	s.run("", `{"resume":%q,"approve":%q}`, a.Get("resume").Str, a.Get("approve").Str)
	s.called(`guarded.put {"k":"1","password":"hunter2"}`)
}
