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
		t.Fatalf("got %d turns, %v, want 2", len(turns), err)
	}
	for i, want := range []struct {
		id, steps string
		returned  []int
	}{
		{"talk, from step 0", `[{"fn":"a","args":{}},{"fn":"b","args":{"x":"$0.n"}}]`, []int{0, 1}}, // b is the last step, and needed later
		{"talk, from step 2", `[{"fn":"c","args":{"x":[10000000000000000001,{"y":[2]}],"z":"a <b>"}},{"fn":"d","args":{"x":"$0.m[0]"}}]`, nil},
	} {
		if got := turns[i]; got.ID != want.id || string(got.Steps) != want.steps || !slices.Equal(got.Return, want.returned) {
			t.Errorf("got %s: %s, returns %v, want %s: %s, returns %v", got.ID, got.Steps, got.Return, want.id, want.steps, want.returned)
		}
		if calls, err := turns[i].Calls(); err != nil || len(calls) != 2 {
			t.Errorf("%s: %d calls, %v, want 2", want.id, len(calls), err)
		}
	}
	one := &datasets.Chain{ID: "one", Steps: json.RawMessage(`[{"fn":"a"},{"fn":"b"}]`), Turn: []int{3, 3}}
	if turns, err := one.Turns(); err != nil || len(turns) != 1 || turns[0] != one {
		t.Errorf("one turn: got %v, %v, want the chain itself", turns, err)
	}
}

// TestParts splits before a step whose arguments were chosen from a result: an entry of a list of several, a member named by the value
// itself. An entry of a list of one is no choice, nor is an entry of a result that the model has read already.
func TestParts(t *testing.T) {
	t.Parallel()
	c := &datasets.Chain{}
	if err := json.Unmarshal([]byte(`{"id":"shop",
		"steps":[{"fn":"user","args":{}},{"fn":"order","args":{"id":"$0.orders[0]"}},{"fn":"item","args":{"id":"$1.items[1]"}},
			{"fn":"item","args":{"id":"$1.items[0]"}},{"fn":"buy","args":{"ids":["$2.kinds.b7.id"],"user":"$0.id"}}],
		"literal_args":[{},{"id":"o"},{"id":"y"},{"id":"x"},{"ids":["b7"],"user":"u"}],
		"results":[{"id":"u","orders":["o"]},{"items":["x","y"]},{"kinds":{"a":{"id":"a"},"b7":{"id":"b7"}}},1,2]}`), c); err != nil {
		t.Fatal(err)
	}
	chains, err := c.Parts()
	if err != nil || len(chains) != 3 {
		t.Fatalf("got %d parts, %v, want 3", len(chains), err)
	}
	for i, want := range []struct {
		steps    string
		returned []int
	}{
		{`[{"fn":"user","args":{}},{"fn":"order","args":{"id":"$0.orders[0]"}}]`, []int{0, 1}},
		{`[{"fn":"item","args":{"id":"y"}},{"fn":"item","args":{"id":"x"}}]`, []int{0, 1}},
		{`[{"fn":"buy","args":{"ids":["b7"],"user":"u"}}]`, nil},
	} {
		if got := chains[i]; string(got.Steps) != want.steps || !slices.Equal(got.Return, want.returned) {
			t.Errorf("part %d: got %s, returns %v, want %s, returns %v", i, got.Steps, got.Return, want.steps, want.returned)
		}
	}
	c.Return = []int{0, 3, 4} // a later turn needs these
	if chains, err = c.Parts(); err != nil || !slices.Equal(chains[1].Return, []int{0, 1}) || chains[2].Return != nil {
		t.Errorf("the parts do not return the results that a later turn needs: %v", err)
	}
	if alone, err := chains[0].Parts(); err != nil || len(alone) != 1 || alone[0] != chains[0] {
		t.Errorf("one part: got %v, %v, want the chain itself", alone, err)
	}
}

// TestPartsOfTexts checks that a chain ends before a step with an argument that a model takes from a text, and returns the text.
func TestPartsOfTexts(t *testing.T) {
	t.Parallel()
	c := &datasets.Chain{
		ID: "files",
		Steps: json.RawMessage(`[{"fn":"a","args":{}},{"fn":"b","args":{}},
			{"fn":"c","args":{"name":"notes","x":"$1"}},{"fn":"d","args":{"id":"7"}}]`),
		LiteralArgs: []json.RawMessage{[]byte(`{}`), []byte(`{}`), []byte(`{"name":"notes","x":2}`), []byte(`{"id":"7"}`)},
		Results:     []json.RawMessage{[]byte(`["see notes"]`), []byte(`2`), []byte(`[{"id":"7"}]`), []byte(`4`)},
		FromText:    []datasets.Literal{{Step: 2, Path: "$0[0]"}},
		ShortRefs:   []datasets.Literal{{Step: 3, Ref: "$2[0].id"}},
	}
	parts, err := c.Parts()
	if err != nil || len(parts) != 3 {
		t.Fatalf("got %d parts, %v, want 3", len(parts), err)
	}
	if got := string(parts[1].Steps); got != `[{"fn":"c","args":{"name":"notes","x":2}}]` {
		t.Errorf("the second part is %s", got)
	}
	if got := parts[0].Return; !slices.Equal(got, []int{0, 1}) {
		t.Errorf("the first part returns %v, want both results", got)
	}
}
