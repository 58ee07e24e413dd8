package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// TestConcurrentRuns runs many chains on one cassette; each gets its own answers in order.
func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 50 {
		for n := range 3 {
			lines = append(lines, fmt.Sprintf(`{"fn":"f","args":{"a":1},"result":"%d-%d","chain":"c%d"}`, i, n, i))
		}
	}
	c, r := load(t, baseRegistry(t), lines...)
	var wg sync.WaitGroup
	for i := range 50 {
		for range 4 {
			wg.Go(func() {
				ctx := c.Cursor(t.Context(), fmt.Sprintf("c%d", i))
				for n := range 4 {
					want := fmt.Sprintf(`"%d-%d"`, i, min(n, 2))
					if got := ask(ctx, r, "f", `{"a":1}`); got != want {
						t.Errorf("chain %d, call %d: %s, want %s", i, n, got, want)
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestConcurrentCallsOfOneRun: one run makes its calls concurrently, and gets every answer once before it gets the last again.
func TestConcurrentCallsOfOneRun(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range 100 {
		lines = append(lines, fmt.Sprintf(`{"fn":"f","result":%d}`, n))
	}
	c, r := load(t, baseRegistry(t), lines...)
	ctx := c.Cursor(t.Context(), "")
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				got := ask(ctx, r, "f", `{}`)
				mu.Lock()
				seen[got]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 100 {
		t.Errorf("got %d different answers, want 100", len(seen))
	}
}

// TestLimits: calls at the limits of a recording can be read and replayed, within the limits of the replay.
func TestLimits(t *testing.T) {
	t.Parallel()
	deepArgs := `{"a":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`
	deepResult := strings.Repeat("[", 9900) + strings.Repeat("]", 9900)
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	answers := map[string]string{`{"n":1}`: long, deepArgs: deepResult}
	original := answering(t, func(_ context.Context, args []byte) ([]byte, error) { return []byte(answers[string(args)]), nil })
	var file bytes.Buffer
	recorder := replay.NewRecorder(&file, nil)
	recorded := original.Observe(recorder.Observe)
	for args, want := range answers {
		if got := ask(t.Context(), recorded, "s.f", args); got != want {
			t.Fatalf("the call gives %.100s, want %.100s", got, want)
		}
	}
	c, err := replay.Read(&file, "x")
	if err != nil || recorder.Err() != nil {
		t.Fatal(err, recorder.Err())
	}
	replayed := mustRegistry(t, c, original)
	for args, want := range answers {
		if got := ask(c.Cursor(t.Context(), ""), replayed, "s.f", args); got != want {
			t.Errorf("the replay gives %.100s, want %.100s", got, want)
		}
	}
	small, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "s.f"},
		Call: func(context.Context, []byte) ([]byte, error) { return nil, nil }}},
		&steps.RegistryOptions{MaxResultBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"n":1}`, deepArgs} {
		if got := ask(c.Cursor(t.Context(), ""), mustRegistry(t, c, small), "s.f", args); !strings.HasPrefix(got, "limit_exceeded: ") {
			t.Errorf("under a smaller limit: got %.100s, want limit_exceeded", got)
		}
	}
}

// TestViews: a function that a view hides stays hidden in a replay, in either order.
func TestViews(t *testing.T) {
	t.Parallel()
	lines := []string{`{"fn":"s.open","result":1}`, `{"fn":"s.hidden","result":2}`, `{"fn":"sHidden","result":3}`,
		`{"fn":"other.hidden","result":4}`}
	visible := func(spec *steps.Spec) bool { return !strings.HasSuffix(spec.Name, "hidden") }
	all := baseRegistry(t, steps.Spec{Name: "s.open"}, steps.Spec{Name: "s.hidden"})
	c, over := load(t, all.View(visible), lines...)
	under := mustRegistry(t, c, all).View(visible)
	for name, test := range map[string]struct {
		registry *steps.Registry
		want     string
	}{"the view replayed": {over, "1 unknown unknown 4"}, "a view of the replay": {under, "1 unknown unknown unknown"}} {
		var got []string
		for _, fn := range []string{"s.open", "s.hidden", "s_hidden", "other.hidden"} {
			answer := ask(c.Cursor(t.Context(), ""), test.registry, fn, `{}`)
			if strings.HasPrefix(answer, string(fault.UnknownFunction)) {
				answer = "unknown"
			}
			got = append(got, answer)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// TestManyMisses: of the calls of a run that are not recorded, only the first are compared with recorded calls.
func TestManyMisses(t *testing.T) {
	t.Parallel()
	c, r := load(t, baseRegistry(t), `{"fn":"s.f","args":{"n":0},"result":1}`)
	for range 2 {
		ctx := c.Cursor(t.Context(), "")
		for n := range 22 {
			got := ask(ctx, r, "s.f", fmt.Sprintf(`{"n":%d}`, n+1))
			if !strings.HasPrefix(got, "not_recorded: ") || strings.Contains(got, `{"n":0}`) != (n < 20) {
				t.Errorf("missing call %d: got %s, want not_recorded, with {\"n\":0} if it is among the first 20", n+1, got)
			}
		}
	}
}
