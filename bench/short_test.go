package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/datasets"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/steps"
)

// TestWrittenBySteps counts what a model writes for the chains of the data sets: as single calls, and as one chain with its steps in either
// form. A chain in the short form must not cost more than 5 % above its calls.
func TestWrittenBySteps(t *testing.T) {
	t.Parallel()
	counter := newCounter(t)
	count := func(text []byte) int { return counter.Count(text, -1) }
	var single, long, short int
	for _, file := range datasets.Names() {
		for _, c := range readChains(t, filepath.Join("..", "..", "shared", "data", file+".jsonl")) {
			calls := c.calls(t)
			for i := range calls {
				single += count(tally.CallText(calls[i].Function, calls[i].Args))
			}
			request := func(steps []byte) int {
				return count(tally.CallText("chain", fmt.Appendf(nil, `{"steps":%s,"lite":true}`, steps)))
			}
			long += request(c.Steps)
			short += request(datasets.Short(c.Steps))
		}
	}
	t.Logf("tokens written: %d as single calls, %d as chains (%.3f), %d in the short form (%.3f)",
		single, long, float64(long)/float64(single), short, float64(short)/float64(single))
	if 100*short > 105*single {
		t.Errorf("in the short form %d tokens, of %d as single calls", short, single)
	}
}

// TestWrittenDependentCalls counts what a model writes for ten calls of one function of which each needs the result of the one before: as
// ten steps, and as one that repeats. Each chain must give what ten calls give.
func TestWrittenDependentCalls(t *testing.T) {
	t.Parallel()
	long, short := []string{`{"fn":"ids.next","args":{"id":1}}`}, []string{`{"ids.next":{"id":1}}`}
	for i := range 9 {
		long = append(long, fmt.Sprintf(`{"fn":"ids.next","args":{"id":"$%d.id"}}`, i))
		short = append(short, fmt.Sprintf(`{"ids.next":{"id":"$%d.id"}}`, i))
	}
	next := func(_ context.Context, args []byte) ([]byte, error) {
		return fmt.Appendf(nil, `{"id":%d}`, gjson.GetBytes(args, "id").Int()+1), nil
	}
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "ids.next", Effect: steps.Read}, Call: next}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		t.Fatal(err)
	}
	counter := newCounter(t)
	for _, test := range []struct {
		name, steps string
		most        int
	}{
		{"ten steps with fn and args", strings.Join(long, ","), 160},
		{"ten short steps", strings.Join(short, ","), 115},
		{"a step that repeats", `{"ids.next":{"id":"$result?.id ?? 1"},"repeat":{"until":"$result.id > 10","max":10}}`, 45},
	} {
		text := []byte(`{"steps":[` + test.steps + `]}`)
		if a := engine.Run(t.Context(), text, nil); gjson.GetBytes(a.JSON, "result.id").Int() != 11 {
			t.Errorf("%s: %s, want the id 11", test.name, a.JSON)
		}
		n := counter.Count(text, -1)
		if t.Logf("%s: %d tokens", test.name, n); n > test.most {
			t.Errorf("%s: %d tokens, want at most %d", test.name, n, test.most)
		}
	}
}
