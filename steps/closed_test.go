package steps

import "testing"

// TestClosedBy: the key that would open a function is told to those who could use it then. It is told to nobody if the function is there, so
// that a caller who gets no key does not learn whether it is.
func TestClosedBy(t *testing.T) {
	t.Parallel()
	c, err := NewCatalog(&CatalogOptions{
		Settings: mustSettings(t, Setting{Pattern: "low.raised", Tier: ptr(TierAdmin)}, Setting{Pattern: "low.hidden", Hide: ptr(true)}),
		Closed: func(name string) (*Spec, string) {
			effect, known := map[string]Effect{"low.get": Read, "low.put": Write, "low.raised": Read, "low.hidden": Read, "low.there": Read}[name]
			if !known {
				return nil, ""
			}
			return &Spec{Name: name, Effect: effect, EffectDeclared: true}, "key"
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Add("low", &downSource{[]string{"low.there"}, StateReady}); err != nil {
		t.Fatal(err)
	}
	readers := NewView(c, Rights{Tier: TierRead}.Allows)
	few := NewView(c, Rights{Tier: TierAdmin, Functions: "low.put"}.Allows)
	for _, test := range []struct {
		p    Provider
		name string
		want string
	}{
		{c, "low.get", "key"}, {c, "low.put", "key"}, {c, "low.none", ""}, {c, "low.there", ""}, {c, "low.hidden", ""},
		{readers, "low.get", "key"}, {readers, "low.put", ""}, {readers, "low.raised", ""}, {readers, "low.there", ""},
		{few, "low.put", "key"}, {few, "low.get", ""}, {c.Registry(), "low.get", ""},
	} {
		if got := ClosedBy(test.p, test.name); got != test.want {
			t.Errorf("%T, %s: got %q, want %q", test.p, test.name, got, test.want)
		}
	}
}
