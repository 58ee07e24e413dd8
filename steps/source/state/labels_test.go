package state_test

import (
	"context"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// TestLabels: a value is kept with the labels of the arguments that it is made of, which an append adds to and a set replaces, and an undo gives
// back the labels with the value.
func TestLabels(t *testing.T) {
	t.Parallel()
	source, registry := open(t, state.Options{Spaces: map[string][]string{"team": {"ann", "bob"}}})
	labeled := func(caller string, labels ...steps.Label) context.Context {
		return steps.WithCallbacks(t.Context(), &steps.Callbacks{Caller: caller, Labels: labels})
	}
	a, b := steps.Label{Name: "a"}, steps.Label{Name: "b", Model: true}
	of := func(caller, args string) string {
		t.Helper()
		list, err := source.Labels(t.Context(), caller, []byte(args))
		if err != nil {
			t.Fatal(err)
		}
		return steps.LabelsText(list)
	}
	var undo *steps.Undo
	for _, step := range []struct {
		ctx            context.Context
		function, args string
		want           string
	}{
		{labeled("ann", a), "state.set", `{"key":"k","value":[1]}`, "a"},
		{labeled("ann", b), "state.append", `{"key":"k","value":2}`, "a,~b"},
		{labeled("ann"), "state.append", `{"key":"k","value":3}`, "a,~b"},
		{labeled("ann"), "state.delete", `{"key":"k","value":3}`, "a,~b"},
		{steps.WithUndo(labeled("ann"), func(u *steps.Undo) error { undo = u; return nil }), "state.set", `{"key":"k","value":0}`, ""},
	} {
		if got := call(step.ctx, registry, step.function, step.args); got[0] != '{' {
			t.Fatal(got)
		}
		if got := of("ann", `{"key":"k"}`); got != step.want {
			t.Errorf("after %s %s the value has %q, want %q", step.function, step.args, got, step.want)
		}
	}
	if got := call(labeled("ann", undo.Labels...), registry, undo.Function, string(undo.Args)); got[0] != '{' || of("ann", `{"key":"k"}`) != "a,~b" {
		t.Errorf("undone: %s, and the value has %q, want a,~b", got, of("ann", `{"key":"k"}`))
	}
	call(labeled("bob", b), registry, "state.set", `{"key":"k","space":"team","value":1}`)
	for args, want := range map[string]string{`{"key":"k","space":"team"}`: "~b", `{"key":null}`: "a,~b", `{"key":"k","space":null}`: "a,~b",
		`{}`: "a,~b", `{"key":"none"}`: "", `{"space":"team"}`: "~b", `{"space":"session"}`: ""} {
		if got := of("ann", args); got != want {
			t.Errorf("%s has %q, want %q", args, got, want)
		}
	}
	if got := of("eve", `{"key":null,"space":null}`); got != "" {
		t.Errorf("another caller's values have %q", got)
	}
}
