package chain_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// TestRecallSideBySide: elements look up what the run has done while others add to it (the race detector watches), and nothing that was applied
// is done again.
func TestRecallSideBySide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, then string }{
		"of an inline chain": {
			`{"steps":[{"fn":"store.get","forEach":"1..20","args":{"k":"$item"},"concurrency":4,"orElse":1},{"fn":"store.put","args":{"k":0}},{"fn":"store.put","args":{"k":99}}]}`,
			`,"steps":[{"chain":{"steps":[{"fn":"store.put","args":{"k":0}},{"fn":"store.put","forEach":"1..30","args":{"k":"$item"},"concurrency":4}]}},
				{"fn":"store.get","forEach":"1..20","args":{"k":"$item"},"concurrency":4,"orElse":1}]`,
		},
		"of elements that are chains": {
			`{"steps":[{"forEach":"1..40","concurrency":4,"args":{"i":"$item"},
				"chain":{"steps":[{"fn":"store.get","args":{"k":"$input.i"},"orElse":1},{"fn":"store.put","args":{"k":"$input.i"}}]}}]}`,
			``,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				var mended atomic.Bool
				var applied sync.Map
				s := newScripted(t, nil, func(function string, args gjson.Result) ([]byte, error) {
					if !mended.Load() && (function == "store.get" || args.Get("k").Int() > 10) {
						return nil, refuses()
					}
					if _, again := applied.LoadOrStore(function+args.Raw, true); again && function == "store.put" {
						t.Errorf("%s was put twice", args.Raw)
					}
					return []byte(`{"id":"x"}`), nil
				})
				run := s.run(fault.FunctionFailed, "%s", test.first).Get("resume").Str
				mended.Store(true)
				s.run("", `{"resume":%q%s}`, run, test.then)
			}
		})
	}
}
