package datasets_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/bench/datasets"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	c := &datasets.Chain{}
	if err := json.Unmarshal([]byte(`{"id":"talk","turn":[0,0,2,2],
		"steps":[{"fn":"a","args":{}},{"fn":"b","args":{"x":"$0.n"}},{"fn":"c","args":{"x":["$0.n",{"y":"$1"}],"z":"a <b>"}},{"fn":"d","args":{"x":"$2.m[0]"}}],
		"literal_args":[{},{"x":10000000000000000001},{"x":[10000000000000000001,{"y":[2]}],"z":"a <b>"},{"x":5}],
		"results":[{"n":10000000000000000001},[2],{"m":[5]},true]}`), c); err != nil {
		t.Fatal(err)
	}
	turns, err := c.Turns()
	if err != nil || len(turns) != 2 {
		t.Fatalf("%d turns, %v", len(turns), err)
	}
	for i, want := range []struct {
		id, steps string
		returned  []int
	}{
		{"talk, turn 0", `[{"fn":"a","args":{}},{"fn":"b","args":{"x":"$0.n"}}]`, []int{0, 1}}, // b is the last, and needed as well
		{"talk, turn 2", `[{"fn":"c","args":{"x":[10000000000000000001,{"y":[2]}],"z":"a <b>"}},{"fn":"d","args":{"x":"$0.m[0]"}}]`, nil},
	} {
		if got := turns[i]; got.ID != want.id || string(got.Steps) != want.steps || !slices.Equal(got.Return, want.returned) {
			t.Errorf("%s: %s, returns %v", got.ID, got.Steps, got.Return)
		}
		if calls, err := turns[i].Calls(); err != nil || len(calls) != 2 {
			t.Errorf("%s: %d calls, %v", want.id, len(calls), err)
		}
	}
	one := &datasets.Chain{ID: "one", Steps: json.RawMessage(`[{"fn":"a"},{"fn":"b"}]`), Turn: []int{3, 3}}
	if turns, err := one.Turns(); err != nil || len(turns) != 1 || turns[0] != one {
		t.Errorf("%v, %v", turns, err)
	}
}
