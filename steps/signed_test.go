package steps

import (
	"context"
	"slices"
	"testing"
)

// signedCatalog has functions that a reader may not use, and saved chains that call them.
func signedCatalog(t *testing.T) *Catalog {
	t.Helper()
	c, err := NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }
	chain := func(name, signed string, calls ...string) Function {
		return Function{Call: call, Spec: Spec{Name: "chain." + name, Saved: &SavedChain{Names: calls, Signed: signed}}}
	}
	for name, list := range map[string][]Function{
		"bank": {{Call: call, Spec: Spec{Name: "bank.pay.send", Tier: TierAdmin}}, {Call: call, Spec: Spec{Name: "bank.get", Effect: Read}}},
		"chain": {chain("signed", "key", "bank.pay.send"), chain("unsigned", "", "bank.get"), chain("outer", "key", "chain.unsigned", "bank.get"),
			chain("short", "key", "pay.send"), chain("within", "key", "chain.short"), chain("spelled", "key", "bank_get")},
	} {
		if err := c.Add(name, fixedFunctions(list)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

type fixedFunctions []Function

func (f fixedFunctions) Functions() []Function { return f }
func (fixedFunctions) Close() error            { return nil }

// TestSignedView: callers with plans see the signed chains that name each function in full, whatever these call, and nothing else.
func TestSignedView(t *testing.T) {
	t.Parallel()
	c := signedCatalog(t)
	names := func(v *View) (list []string) {
		for _, entry := range v.Registry().All() {
			list = append(list, entry.Spec().Name)
		}
		return list
	}
	view := Rights{Plans: true}.View(c)
	if got := names(view); !slices.Equal(got, []string{"chain.outer", "chain.signed"}) {
		t.Errorf("the view has %v, want the signed chains with full names", got)
	}
	if got := names(Rights{Plans: true, Functions: "chain.s*"}.View(c)); !slices.Equal(got, []string{"chain.signed"}) {
		t.Errorf("with a pattern it has %v, want chain.signed", got)
	}
	if got := names(view.Variant(nil)); len(got) != 2 {
		t.Errorf("a variant has %v", got)
	}
	if got := names(Rights{Tier: TierRead}.View(c)); !slices.Equal(got, []string{"bank.get", "chain.outer", "chain.spelled", "chain.unsigned"}) {
		t.Errorf("a reader has %v: a signature gives other callers nothing", got)
	}
	beneath := view.Registry().Beneath()
	if beneath == nil || !beneath.Has("bank.pay.send") {
		t.Error("the functions beneath the view lack one that a signed chain calls")
	}
	if sources := view.Sources(); len(sources) != 1 || sources[0].Name != ChainSource {
		t.Errorf("the view knows the sources %v, want its chains alone", sources)
	}
	for _, name := range []string{"bank.pay.send", "bank.get", "chain.unsigned", "get", "chain.short"} {
		if entry, err := view.Registry().Resolve(name); err == nil {
			t.Errorf("%s is %s, want no function", name, entry.Spec().Name)
		}
	}
}
