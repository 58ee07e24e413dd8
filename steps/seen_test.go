package steps

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestUnseenIsWalkedOnce: a path that was found in a shape is not walked again until the shape changes.
func TestUnseenIsWalkedOnce(t *testing.T) {
	call := func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }
	r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b"}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shape := func(text string) *Seen {
		return &Seen{Schema: json.RawMessage(text), Rare: func([]schema.Element) bool { return false }}
	}
	seen := shape(`{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}`)
	e := r.Learn(func(_ *Spec, call Call) (Call, func() *Seen) { return call, func() *Seen { return seen } }).All()[0]
	id := []schema.Element{{Key: "id"}}
	if n := testing.AllocsPerRun(100, func() {
		if f := e.Unseen(id); f != nil {
			t.Fatal(f)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a path that was walked", n)
	}
	seen = shape(`{"type":"object","properties":{"key":{"type":"integer"}},"additionalProperties":false}`)
	if e.Unseen(id) == nil {
		t.Error("the types of an earlier shape")
	}
}
