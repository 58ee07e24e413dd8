package steps_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestUnseenPathIsCached: a path that was found in a shape is not looked up again until the shape changes.
func TestUnseenPathIsCached(t *testing.T) {
	call := func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }
	r, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "a.b"}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shape := func(text string) *steps.ResultShape {
		return &steps.ResultShape{Schema: json.RawMessage(text), Rare: func([]schema.Element) bool { return false }}
	}
	seen := shape(`{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}`)
	e := r.Learn(func(_ *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		return call, func() *steps.ResultShape { return seen }
	}).All()[0]
	id := []schema.Element{{Key: "id"}}
	if n := testing.AllocsPerRun(100, func() {
		if f := e.UnseenPath(id); f != nil {
			t.Fatal(f)
		}
	}); n > 0 {
		t.Errorf("UnseenPath allocates %v times for a path that it has already walked, want none", n)
	}
	seen = shape(`{"type":"object","properties":{"key":{"type":"integer"}},"additionalProperties":false}`)
	if e.UnseenPath(id) == nil {
		t.Error("UnseenPath uses the types of an earlier shape")
	}
}
