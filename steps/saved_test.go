package steps_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func returnNull(context.Context, []byte) ([]byte, error) { return []byte("null"), nil }

// chainOf returns a saved chain that calls these functions.
func chainOf(name string, calls ...string) steps.Function {
	return steps.Function{Call: returnNull, Spec: steps.Spec{Name: "chain." + name, Saved: &steps.SavedChain{Text: []byte("{}"), Names: calls}}}
}

// linkedRegistry returns functions of each effect and tier, and saved chains; broken holds the chains that are left out, and why.
func linkedRegistry(t *testing.T, chains ...steps.Function) (r *steps.Registry, broken map[string]string) {
	t.Helper()
	all := append([]steps.Function{
		{Spec: steps.Spec{Name: "a.read", Effect: steps.Read, EffectDeclared: true, Local: true}, Call: returnNull},
		{Spec: steps.Spec{Name: "a.guess", Idempotent: true}, Call: returnNull},
		{Spec: steps.Spec{Name: "a.write", EffectDeclared: true}, Call: returnNull},
		{Spec: steps.Spec{Name: "a.destroy", Effect: steps.Destroy, EffectDeclared: true}, Call: returnNull},
		{Spec: steps.Spec{Name: "a.secret", Effect: steps.Read, Tier: steps.TierAdmin}, Call: returnNull},
	}, chains...)
	r, err := steps.NewRegistry(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	broken = map[string]string{}
	return r.LinkChains(func(name string, why *fault.Error) { broken[name] = why.Message }), broken
}

// TestLinkedChains: a saved chain has the strongest effect and tier of the functions that it calls, also through another chain.
func TestLinkedChains(t *testing.T) {
	t.Parallel()
	undoes := chainOf("undoes", "a.write")
	undoes.Saved.Undoes = []string{"destroy"}
	closed := chainOf("closed", "a.read")
	closed.Tier = steps.TierAdmin
	r, broken := linkedRegistry(t, chainOf("reads", "a.read"), chainOf("none"), chainOf("guesses", "read", "a.guess"),
		chainOf("writes", "a.read", "a.guess", "a.write"),
		chainOf("destroys", "chain.writes", "A_Destroy"), chainOf("peeks", "chain.reads", "a.secret"), undoes, closed)
	if len(broken) > 0 {
		t.Fatalf("LinkChains reports %v, want none", broken)
	}
	for name, want := range map[string]string{
		"reads": "read read true true true [a.read]", "none": "read read true true true []",
		"guesses":  "write read_write false true false [a.guess a.read]",
		"writes":   "write read_write false false false [a.guess a.read a.write]",
		"destroys": "destroy read_write false false false [a.destroy a.guess a.read a.write chain.writes]",
		"peeks":    "read admin false true false [a.read a.secret chain.reads]",
		"undoes":   "write read_write true false false [a.destroy a.write]",
		"closed":   "read admin true true true [a.read]",
	} {
		e, err := r.Resolve("chain." + name)
		if err != nil {
			t.Fatal(err)
		}
		s := e.Spec()
		if got := fmt.Sprint(s.Effect, " ", s.MinimumTier(), " ", s.EffectDeclared, s.Idempotent, s.Local, s.Saved.Calls()); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestChainsOfViews: a view without a function has no chain that calls it.
func TestChainsOfViews(t *testing.T) {
	t.Parallel()
	r, _ := linkedRegistry(t, chainOf("reads", "a.read"), chainOf("both", "chain.reads", "a.guess"), chainOf("round", "chain.round"),
		chainOf("lost", "a.gone"))
	view := r.View(func(s *steps.Spec) bool { return s.Name != "a.guess" })
	for name, has := range map[string]bool{"chain.reads": true, "chain.both": false} {
		if view.Has(name) != has {
			t.Errorf("Has(%q) = %v, want %v", name, !has, has)
		}
	}
	if view.Len() != len(view.All()) {
		t.Errorf("Len is %d, want %d", view.Len(), len(view.All()))
	}
	_, err := view.Resolve("round")
	if f, _ := fault.As(err); f == nil || !strings.Contains(f.Message, "in a cycle: chain.round → chain.round") {
		t.Errorf("chain.round: got %v, want a cycle", err)
	}
	if _, err := r.Resolve("chain.lost"); err == nil || !strings.Contains(err.Error(), `cannot be used: there is no function "a.gone"`) {
		t.Errorf("chain.lost: got %v, want that a.gone is missing", err)
	}
	if _, err := view.Resolve("chain.lost"); err == nil || strings.Contains(err.Error(), "gone") { // a.gone may be hidden
		t.Errorf("chain.lost in a view: got %v, want a fault without a.gone", err)
	}
}

// TestBrokenChains: only chains that call each other, nest too deeply or name missing functions are left out.
func TestBrokenChains(t *testing.T) {
	t.Parallel()
	chains := []steps.Function{chainOf("good", "a.read"), chainOf("x", "chain.y"), chainOf("y", "chain.z", "a.read"), chainOf("z", "chain.x"),
		chainOf("near", "chain.x")}
	for i := range steps.MaxSavedDepth + 1 { // the first calls nothing
		next := chainOf(fmt.Sprintf("deep%d", i+1))
		if i > 0 {
			next.Saved.Names = []string{fmt.Sprintf("chain.deep%d", i)}
		}
		chains = append(chains, next)
	}
	for name, undo := range map[string]string{"back": "chain.good", "self": "chain.self", "one": "chain.other", "other": "chain.one"} {
		undone := chainOf(name, "a.read")
		undone.Saved.Undoes = []string{undo}
		chains = append(chains, undone)
	}
	r, broken := linkedRegistry(t, chains...)
	for name, why := range map[string]string{"x": "cycle", "y": "cycle", "z": "cycle", "near": "cycle", "deep9": "nest deeper than 8",
		"back": "name a function", "self": "name a function", "one": "name a function", "other": "name a function"} {
		if !strings.Contains(broken["chain."+name], why) {
			t.Errorf("chain.%s: got %q, want %q", name, broken["chain."+name], why)
		}
	}
	if len(broken) != 9 || !r.Has("chain.good") || !r.Has("chain.deep8") {
		t.Errorf("broken chains: got %v, want 9", broken)
	}
}

// TestChainNames: a saved chain does not make the short name of another function ambiguous.
func TestChainNames(t *testing.T) {
	t.Parallel()
	r, _ := linkedRegistry(t, chainOf("read", "a.write"), chainOf("tidy", "a.write"))
	for short, want := range map[string]string{"read": "a.read", "tidy": "chain.tidy", "chain.read": "chain.read", "chainRead": "chain.read"} {
		if e, err := r.Resolve(short); err != nil || e.Spec().Name != want {
			t.Errorf("Resolve(%q): got %v, %v, want %s", short, e, err, want)
		}
	}
	names := []string{}
	for _, e := range r.All() {
		names = append(names, e.Spec().Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("All returns %q, want them sorted", names)
	}
}
