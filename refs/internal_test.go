package refs

import (
	"reflect"
	"slices"
	"testing"

	"github.com/expr-lang/expr/builtin"
)

func TestExpressionUses(t *testing.T) {
	t.Parallel()
	x := compileExpression(t, `$0.items[0].id == $prev?.x && status("search") == "ok" && any($0["a b"][$index], $item[-1] > 1) && `+
		`len($result) > 0`)
	key := func(k string) Segment { return Segment{Key: k, Kind: Quoted} }
	want := []Use{
		{Root: RootStep, Step: 0, Path: []Segment{key("items"), {Kind: At}, key("id")}},
		{Root: RootStep, Step: 2, Path: []Segment{{Key: "x", Kind: Quoted, Optional: true}}},
		{Root: RootStep, Step: 1, Status: true},
		{Root: RootStep, Step: 0, Path: []Segment{key("a b")}},
		{Root: rootIndex},
		{Root: RootItem, Path: []Segment{{Index: -1, Kind: At}}},
		{Root: RootResult},
	}
	got := x.Uses()
	if len(got) != len(want) {
		t.Fatalf("uses %+v, want %+v", got, want)
	}
	for i := range want {
		want[i].At, want[i].Lenient, want[i].Expression = "/args", i == 1, true
		if len(got[i].Path) == 0 {
			got[i].Path = nil
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("use %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestEveryBuiltin: every function of expr-lang is listed; an upgrade that adds one fails here.
func TestEveryBuiltin(t *testing.T) {
	t.Parallel()
	for _, f := range builtin.Builtins {
		positions := 0
		if f.Predicate && disabled[f.Name] == "" {
			positions++
		}
		if disabled[f.Name] != "" {
			positions++
		}
		if guarded[f.Name] != nil {
			positions++
		}
		if slices.Contains(unguarded, f.Name) {
			positions++
			if len(f.Types) > 1 {
				t.Errorf("%s has %d signatures, want at most 1: expr-lang's check of nested calls is exponential", f.Name, len(f.Types))
			}
		}
		if positions != 1 {
			t.Errorf("%s is in %d of predicates, disabled, guarded and unguarded, want 1", f.Name, positions)
		}
	}
}
