package chain_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestUndoOfParallelElements: parallel elements each undo their own writes while the others run.
func TestUndoOfParallelElements(t *testing.T) {
	t.Parallel()
	b := &bin{items: map[string]string{}}
	e := savedEngine(t, chain.Options{Journal: newJournal(t, nil)}, b, "careful", `{"onError":"undo","params":{"key":{}},"steps":[
		{"fn":"bin.make","args":{"key":"$input.key"}},{"fn":"bin.put","args":{"key":"${$input.key}-2","fail":"no"}}]}`)
	a := e.Run(context.Background(), []byte(`{"onError":"continue","steps":[{"fn":"chain.careful","forEach":"1..200","concurrency":8,
		"args":{"key":"k${$item}"}}]}`), nil)
	if a.OK || len(b.items) > 0 || strings.Count(strings.Join(b.log, "\n"), "bin.remove ") != 200 {
		t.Errorf("%d items left, want none: %.500s", len(b.items), a.JSON)
	}
}

// TestResumedTwiceAtOnce: of two requests that resume a run at once, one continues it and the other gets busy.
func TestResumedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, failing("b", refuses))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"a"}},
		{"fn":"store.put","args":{"k":"b"}}]}`).Get("resume").Str
	began, proceed := make(chan bool), make(chan bool)
	s.ends = func(string, gjson.Result) ([]byte, error) {
		close(began)
		<-proceed
		return []byte(`{"id":"x"}`), nil
	}
	first := make(chan *chain.Answer)
	go func() { first <- s.engine.Run(t.Context(), []byte(`{"resume":"`+run+`"}`), nil) }()
	<-began
	s.run(fault.Busy, `{"resume":%q}`, run)
	s.run(fault.Busy, `{"resume":%q,"undo":true}`, run)
	close(proceed)
	if a := <-first; !a.OK {
		t.Errorf("first resume: %s, want success", a.JSON)
	}
	s.wantCalls(`store.put {"k":"a"}`, `store.put {"k":"b"}`, `store.put {"k":"b"}`)
}

// TestConcurrentRecall: elements look up earlier calls of the run while others add calls (for the race detector), and no applied call is
// made again.
func TestConcurrentRecall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, then string }{
		"elements that end": {
			`{"steps":[{"forEach":"1..40","concurrency":4,"args":{"i":"$item"},
				"chain":{"steps":[{"fn":"store.get","args":{"k":"$input.i"},"orElse":1},{"fn":"store.put","args":{"k":"$input.i"}}]}}]}`,
			``,
		},
		"elements that begin after much was written": {
			`{"steps":[{"fn":"store.put","forEach":"1..500","args":{"n":"$item"}},
				{"fn":"store.get","forEach":"1..80","args":{"k":"$item"},"concurrency":4,"orElse":1},
				{"fn":"store.put","args":{"k":0}},{"fn":"store.put","args":{"k":99}}]}`,
			`,"steps":[{"fn":"store.put","forEach":"1..500","args":{"n":"$item"}},{"forEach":"1..80","concurrency":8,"args":{"i":"$item"},
				"chain":{"steps":[{"fn":"store.get","args":{"k":"$input.i"},"orElse":1},{"fn":"store.put","args":{"k":"$input.i"}}]}},
				{"fn":"store.put","args":{"k":0}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				var fixed atomic.Bool
				var applied sync.Map
				s := newScriptedEngine(t, nil, func(function string, args gjson.Result) ([]byte, error) {
					if !fixed.Load() && (function == "store.get" || args.Get("k").Int() > 10) {
						return nil, refuses()
					}
					if _, again := applied.LoadOrStore(function+args.Raw, true); again && function == "store.put" {
						t.Errorf("%s was put twice", args.Raw)
					}
					return []byte(`{"id":"x"}`), nil
				})
				run := s.run(fault.FunctionFailed, "%s", test.first).Get("resume").Str
				fixed.Store(true)
				s.run("", `{"resume":%q%s}`, run, test.then)
			}
		})
	}
}

// TestConcurrentReadsAreNoConflict: an unchanged chain has no conflict, even if parallel elements have made equal reads.
func TestConcurrentReadsAreNoConflict(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	written := make(chan bool)
	s := newScriptedEngine(t, nil, func(function string, _ gjson.Result) ([]byte, error) {
		switch {
		case function == "store.put":
			close(written)
		case reads.Add(1) == 1:
			<-written // wait for the write of the other element, whose read ends first
			return nil, refuses()
		}
		return []byte(`{"id":"x"}`), nil
	})
	run := s.run(fault.FunctionFailed, `{"onError":"continue","steps":[{"forEach":"['a','b']","concurrency":2,"args":{"k":"$item"},
		"chain":{"steps":[{"fn":"store.get"},{"fn":"store.put","args":{"k":"$input.k","of":"$0.id"}}]}}]}`).Get("resume").Str
	s.ends = nil
	s.run("", `{"resume":%q}`, run)
	if n := len(s.log); n != 5 {
		t.Errorf("calls %q, want 5", s.log)
	}
}
