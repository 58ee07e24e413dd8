package tally_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/tally"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	if got, want := string(tally.CallText("fs.cat", []byte(`{ "path": "a<b" }`))),
		`{"name":"fs.cat","arguments":{"path":"a<b"}}`; got != want {
		t.Errorf("CallText: got %s, want %s", got, want)
	}
	if got, want := string(tally.Request([]byte(`{"description":"x","$schema":"y","steps":[1]}`))), `{"steps":[1]}`; got != want {
		t.Errorf("Request: got %s, want %s", got, want)
	}
	set := []chain.Setting{{Key: "a", Value: "2"}, {Key: "b", Value: "x y"}}
	if got, want := string(tally.WithInput([]byte(`{"steps":[],"input":{"a":1,"c":3}}`), nil, set)),
		`{"input":{"a":2,"b":"x y","c":3},"steps":[]}`; got != want {
		t.Errorf("WithInput and settings: got %s, want %s", got, want)
	}
	if got, want := string(tally.WithInput([]byte(`{"input":{"a":1}}`), []byte(`{"c":3}`), nil)), `{"input":{"c":3}}`; got != want {
		t.Errorf("WithInput and another input: got %s, want %s", got, want)
	}
}

func TestSides(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := tally.Calls(counter, []tally.Call{{Function: "a", Args: []byte("{}"), Result: []byte("one")},
		{Function: "b", Args: []byte("{}"), Result: []byte("two three")}})
	if want := (tally.Side{RoundTrips: 2, Written: 18, Read: 3}); calls != want {
		t.Errorf("Calls: got %+v, want %+v", calls, want)
	}
	sum := tally.Chain(counter, []byte(`{"description":"long","steps":[]}`), []byte("one"))
	sum.Add(calls)
	if want := (tally.Side{RoundTrips: 3, Written: 18 + counter.Count([]byte(`{"name":"chain","arguments":{"steps":[]}}`), -1),
		Read: 4}); sum != want {
		t.Errorf("the sum is %+v, want %+v", sum, want)
	}
}
