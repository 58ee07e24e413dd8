package steps

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// downSource is a source that never started or is no longer available.
type downSource struct {
	names []string
	state State
}

func (s *downSource) Functions() []Function {
	var list []Function
	for _, name := range s.names {
		list = append(list, Function{Spec: Spec{Name: name, Tier: TierAdmin},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }})
	}
	return list
}
func (s *downSource) Close() error { return nil }
func (s *downSource) Watch(func()) {}
func (s *downSource) Status() Status {
	return Status{State: s.state, Error: fault.New(fault.Unavailable, "cannot start /opt/secret")}
}

// catalogOf returns a catalog with settings and without sources.
func catalogOf(t *testing.T, settings ...Setting) *Catalog {
	t.Helper()
	c, err := NewCatalog(&CatalogOptions{Settings: mustSettings(t, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestViewHidesSources: a view does not reveal a source whose functions are all hidden, or that settings place above the caller's tier.
func TestViewHidesSources(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, Setting{Pattern: "above.*", Tier: ptr(TierAdmin)}, Setting{Pattern: "gone.*", Hide: ptr(true)})
	for name, source := range map[string]*downSource{
		"hidden": {[]string{"hidden.a"}, StateRetrying}, "above": {nil, StateRetrying}, "gone": {nil, StateFailed}, "open": {nil, StateRetrying},
	} {
		if err := c.Add(name, source); err != nil {
			t.Fatal(err)
		}
	}
	view := NewView(c, func(s *Spec) bool { return s.MinimumTier() <= TierRead })
	var names []string
	for _, source := range view.Sources() {
		names = append(names, source.Name)
	}
	if strings.Join(names, " ") != "open" || strings.Join(absentFrom(view), " ") != "open" {
		t.Errorf("sources %v, absent %v, want open for both", names, absentFrom(view))
	}
	for name, want := range map[string]bool{"hidden.a": false, "hidden.b": false, "above.a": false, "gone.a": false, "open.a": true} {
		if f := Unavailable(view, name); (f != nil) != want {
			t.Errorf("Unavailable(%q) = %v, want a fault: %t", name, f, want)
		}
	}
	if len(absentFrom(c)) != 4 || Unavailable(c, "above.a") == nil {
		t.Errorf("the catalog reports absent sources %v, want 4", absentFrom(c))
	}
}

func absentFrom(p Provider) []string {
	down, locked := AbsentSources(p)
	return append(down, locked...)
}

// TestViewHidesLonelyFunctions: a function that serves the tools of its source is hidden from those who may use none of them.
func TestViewHidesLonelyFunctions(t *testing.T) {
	t.Parallel()
	call := func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }
	tool := func(name string, effect Effect) Function {
		return Function{Spec: Spec{Name: name, Effect: effect}, Call: call}
	}
	serves := func(name string) Function {
		return Function{Spec: Spec{Name: name, Effect: Read, ChainOnly: true}, Call: call}
	}
	c := catalogOf(t)
	for name, functions := range map[string]listSource{
		"mixed":  {tool("mixed.get", Read), tool("mixed.put", Write), serves("mixed.resources.read")},
		"writes": {tool("writes.put", Write), serves("writes.resources.read")},
		"alone":  {serves("alone.resources.read")},
	} {
		if err := c.Add(name, functions); err != nil {
			t.Fatal(err)
		}
	}
	for tier, want := range map[Tier]string{
		TierRead:      "alone.resources.read mixed.get mixed.resources.read",
		TierReadWrite: "alone.resources.read mixed.get mixed.put mixed.resources.read writes.put writes.resources.read",
	} {
		view := NewView(c, func(s *Spec) bool { return s.MinimumTier() <= tier })
		for _, view := range []*View{view, view.Variant(map[string][]Function{"writes": {tool("writes.drop", Destroy), serves("writes.resources.read")}})} {
			var names []string
			for _, e := range view.Registry().All() {
				names = append(names, e.Spec().Name)
			}
			slices.Sort(names)
			if got := strings.ReplaceAll(strings.Join(names, " "), "writes.drop", "writes.put"); got != want {
				t.Errorf("tier %s sees %s, want %s", tier, got, want)
			}
		}
	}
}

// TestViewShowsNamedFunctions: whoever has the right to just such a function by its name sees it, and its source, but not what else is there.
func TestViewShowsNamedFunctions(t *testing.T) {
	t.Parallel()
	call := func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }
	c := catalogOf(t)
	if err := c.Add("shelf", listSource{{Spec: Spec{Name: "shelf.get", Effect: Read}, Call: call},
		{Spec: Spec{Name: "shelf.put", Effect: Write}, Call: call},
		{Spec: Spec{Name: "shelf.resources.read", Effect: Read, ChainOnly: true}, Call: call}}); err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]string{"shelf.resources.read": "shelf.resources.read", "*.resources.*": "shelf.resources.read",
		"shelf.put": "", "shelf.put shelf.resources.read": "shelf.resources.read", "shelf.*": "shelf.get shelf.resources.read"} {
		rights := Rights{Tier: TierRead, Functions: rule}
		view := NewView(c, rights.Allows)
		for _, view := range []*View{view, view.Variant(map[string][]Function{"shelf": {
			{Spec: Spec{Name: "shelf.put", Effect: Write}, Call: call},
			{Spec: Spec{Name: "shelf.get", Effect: Read, Description: "of its own"}, Call: call},
			{Spec: Spec{Name: "shelf.resources.read", Effect: Read, ChainOnly: true}, Call: call}}})} {
			var names []string
			for _, e := range view.Registry().All() {
				names = append(names, e.Spec().Name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != want || len(view.Sources()) != min(len(names), 1) {
				t.Errorf("%s sees %q and %d sources, want %q and its source", rule, got, len(view.Sources()), want)
			}
		}
	}
}

// listSource is a source with these functions.
type listSource []Function

func (s listSource) Functions() []Function { return s }
func (listSource) Close() error            { return nil }

// TestHasAll: the functions that a source may still offer count, in each tier that a setting gives.
func TestHasAll(t *testing.T) {
	t.Parallel()
	few := []Setting{{Pattern: "bank.*", Tier: ptr(TierRead)}, {Pattern: "*.purge", Tier: ptr(TierReadWrite)},
		{Pattern: "off.*", Hide: ptr(true)}}
	for _, test := range []struct {
		tier     Tier
		settings []Setting
		has      map[string]bool
	}{
		{TierRead, few, map[string]bool{"bank": false, "plain": false, "off": false}},
		{TierReadWrite, few, map[string]bool{"bank": true, "plain": true, "off": false}},
		{TierReadWrite, append(few, Setting{Pattern: "shop.vault.*", Tier: ptr(TierAdmin)}),
			map[string]bool{"shop": false, "plain": false, "off": false}},
		{TierReadWrite, nil, map[string]bool{"plain": true}},
		{TierAdmin, append(few, Setting{Pattern: "shop.vault.*", Tier: ptr(TierAdmin)}),
			map[string]bool{"shop": true, "bank": true, "plain": true, "off": true}},
	} {
		view := NewView(catalogOf(t, test.settings...), func(s *Spec) bool { return s.MinimumTier() <= test.tier })
		for source, want := range test.has {
			if view.HasAll(source) != want {
				t.Errorf("view of tier %s: HasAll(%q) = %v", test.tier, source, !want)
			}
		}
	}
}

// TestViewStarting: a caller does not wait for a source that it may not know of, and the source's name looks unknown.
func TestViewStarting(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, Setting{Pattern: "above.*", Tier: ptr(TierAdmin)})
	if err := c.Add("above", &downSource{nil, StateStarting}); err != nil {
		t.Fatal(err)
	}
	for tier, visible := range map[Tier]bool{TierRead: false, TierAdmin: true} {
		view := NewView(c, func(s *Spec) bool { return s.MinimumTier() <= tier })
		if got := []bool{view.Starting() != nil, Pending(view, "above.a"), Pending(view, "b"), Qualified(view, "above.a")}; !slices.Equal(got,
			[]bool{visible, visible, visible, visible}) {
			t.Errorf("tier %s: got %v, want all %t", tier, got, visible)
		}
	}
}
