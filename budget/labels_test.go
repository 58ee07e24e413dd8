package budget_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/fault"
)

// TestLabels: a result is kept with its labels, whatever else its owner has, and only its owner learns them.
func TestLabels(t *testing.T) {
	t.Parallel()
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := budget.NewResults(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, rights := range []budget.Rights{{}, {Level: 2}, {Level: 1, Scope: "some"}} {
		owned := plain.WithRights(rights)
		for text, want := range map[string]string{"": "", "a": "a", "a,~a,b": "a,~a,b", strings.Repeat("long", 50): "*"} {
			labeled := owned.WithLabels(text)
			token, _, err := labeled.Keep(t.Context(), "ann", []byte("1"))
			if err != nil {
				t.Fatal(err)
			}
			shown, err := labeled.KeepShown(t.Context(), "ann", []byte("2"))
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range []string{token, shown} {
				got, known, err := owned.Labels(t.Context(), "ann", token)
				if got != want || known != (want != "*") || err != nil {
					t.Errorf("%v: %q is %q, known %t, %v", rights, text, got, known, err)
				}
				if _, _, err := owned.Labels(t.Context(), "bob", token); fault.CodeOf(err) != fault.TokenExpired {
					t.Errorf("%v: another caller gets %v", rights, err)
				}
				if _, _, err := owned.Value(t.Context(), "ann", token); err != nil {
					t.Errorf("%v: the value: %v", rights, err)
				}
			}
			if _, err := owned.Shown(t.Context(), "ann", shown); err != nil {
				t.Errorf("%v: what was shown: %v", rights, err)
			}
			if _, err := owned.Shown(t.Context(), "ann", token); err == nil {
				t.Errorf("%v: what was not shown counts as shown", rights)
			}
			if rights.Level > 0 {
				if _, _, err := plain.Labels(t.Context(), "ann", token); fault.CodeOf(err) != fault.TokenExpired {
					t.Errorf("%v: with fewer rights: %v", rights, err)
				}
			}
		}
	}
	if _, _, err := plain.Labels(t.Context(), "ann", "oc1_none"); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("a token of nothing: %v", err)
	}
}
