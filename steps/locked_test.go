package steps_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// tenants are credentials for the sources crm and desk. Whoever brings one has it.
type tenants struct{}

func (tenants) Find(name, digest string) *steps.Credential {
	return &steps.Credential{Name: name, Digest: digest}
}

func (tenants) Refresh(string) {}

func (tenants) Missing(name string) *fault.Error {
	if name != "crm" && name != "desk" {
		return nil
	}
	return fault.New(fault.Denied, "%s needs a tenant", name)
}

type fixedSource []steps.Function

func (s fixedSource) Functions() []steps.Function { return s }
func (fixedSource) Close() error                  { return nil }

// lockedDesk is a source that has other functions for each credential, and none without.
type lockedDesk struct{ fixedSource }

func (lockedDesk) Watch(func())         {}
func (lockedDesk) Status() steps.Status { return steps.Status{State: steps.StateLocked} }

// tenantCatalog returns a catalog of functions that need a credential of each caller, with saved chains that call them.
func tenantCatalog(t *testing.T, unbound bool) (c *steps.Catalog, broken map[string]*fault.Error) {
	t.Helper()
	c, err := steps.NewCatalog(&steps.CatalogOptions{Credentials: tenants{}, Unbound: unbound,
		BrokenChains: func(why map[string]*fault.Error) { broken = why }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	function := func(name string, effect steps.Effect) steps.Function {
		return steps.Function{Call: returnNull, Spec: steps.Spec{Name: name, Effect: effect, EffectDeclared: true, Needs: "crm"}}
	}
	for name, source := range map[string]steps.Source{
		"crm":             fixedSource{function("crm.list", steps.Read), function("crm.mail", steps.Write)},
		"desk":            lockedDesk{},
		steps.ChainSource: fixedSource{chainOf("lists", "crm.list"), chainOf("mails", "chain.lists", "crm.mail"), chainOf("desks", "desk.x"), chainOf("typo", "crm.lst")},
	} {
		if err := c.Add(name, source); err != nil {
			t.Fatal(err)
		}
	}
	c.Registry()
	return c, broken
}

func namesOf(r *steps.Registry) string {
	var names []string
	for _, e := range r.All() {
		names = append(names, e.Spec().Name)
	}
	return strings.Join(names, " ")
}

// TestWhole: what needs a credential of each caller is known to the configuration, whoever calls, and missing for callers without one.
func TestWhole(t *testing.T) {
	t.Parallel()
	const all = "chain.lists chain.mails crm.list crm.mail"
	for unbound, want := range map[bool]string{false: "", true: all} {
		c, broken := tenantCatalog(t, unbound)
		whole, sources := c.Whole()
		if namesOf(whole) != all || namesOf(c.Registry()) != want {
			t.Errorf("unbound %t: the whole is %s, all callers have %s, want %s and %s", unbound, namesOf(whole), namesOf(c.Registry()), all, want)
		}
		locked := map[string]bool{}
		for _, s := range sources {
			locked[s.Name] = s.State == steps.StateLocked
		}
		for _, s := range c.Sources() {
			locked["seen "+s.Name] = s.State == steps.StateLocked
		}
		if !maps.Equal(locked, map[string]bool{"crm": false, "desk": true, "chain": false, "seen crm": !unbound, "seen desk": true, "seen chain": false}) {
			t.Errorf("unbound %t: locked are %v", unbound, locked)
		}
		if !errors.Is(broken["chain.desks"], steps.ErrCredential) || len(broken) != 2 || errors.Is(broken["chain.typo"], steps.ErrCredential) {
			t.Errorf("unbound %t: broken chains %v, want desks, for callers with a credential, and typo", unbound, broken)
		}
		mail, err := whole.Resolve("crm.mail")
		if err != nil {
			t.Fatal(err)
		}
		if f := steps.MissingCredential(c, mail.Spec()); f == nil || f.Code != fault.Denied {
			t.Errorf("unbound %t: a call without a credential lacks %v", unbound, f)
		}
		own, err := steps.NewView(c, allFunctions).WithCredentials("crm=1").Registry().Resolve("crm.mail")
		if err != nil || own.Spec().Credential != "crm=1" || steps.MissingCredential(c, own.Spec()) != nil {
			t.Errorf("unbound %t: with a credential: %v, %v", unbound, own, err)
		}
	}
}

// TestLockedChains: a caller learns of a chain, and what to bring for it, if its rights would do.
func TestLockedChains(t *testing.T) {
	t.Parallel()
	c, _ := tenantCatalog(t, false)
	for tier, want := range map[steps.Tier]string{steps.TierRead: "chain.lists", steps.TierReadWrite: "chain.lists chain.mails"} {
		view := steps.NewView(c, func(s *steps.Spec) bool { return s.MinimumTier() <= tier })
		var names []string
		for _, chain := range view.LockedChains() {
			names = append(names, chain.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("tier %s: locked chains %q, want %q", tier, got, want)
		}
		for name, short := range map[string]string{"chain.lists": "lists", "chain.mails": "mails", "chain.typo": "typo", "chain.desks": "desks"} {
			for _, asked := range []string{name, short} {
				f := steps.Unavailable(view, asked)
				if told := f != nil; told != strings.Contains(want, name) || told && f.Message != name+" cannot be called yet: crm needs a tenant" {
					t.Errorf("tier %s: %s: %v", tier, asked, f)
				}
			}
		}
		if locked := view.WithCredentials("crm=1").LockedChains(); len(locked) > 0 {
			t.Errorf("tier %s: with a credential, locked chains %v", tier, locked)
		}
		mayUse, writes := view.MayUse(), tier == steps.TierReadWrite
		for name, may := range map[string]bool{"crm.list": true, "crm.mail": writes, "desk.any": writes, "chain.lists": true, "crm.none": false} {
			if mayUse(name) != may {
				t.Errorf("tier %s may use %s: %t, want %t", tier, name, !may, may)
			}
		}
	}
}
