package console

import (
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestViews: the functions of the same rights are computed once for a catalog, and those of others apart.
func TestViews(t *testing.T) {
	t.Parallel()
	var v viewCache
	catalog, reader := &steps.Catalog{}, steps.Rights{Tier: steps.TierRead}
	first := v.of(catalog, reader)
	if v.of(catalog, reader) != first {
		t.Error("the same rights have another view")
	}
	if v.of(catalog, steps.Rights{Tier: steps.TierRead, Functions: "a.*"}) == first || v.of(&steps.Catalog{}, reader) == first {
		t.Error("other rights, or another catalog, have the same view")
	}
	for tier := range steps.Tier(2 * maxViews) {
		v.of(catalog, steps.Rights{Tier: tier})
	}
	if len(v.list) > maxViews {
		t.Errorf("%d views are kept", len(v.list))
	}
}
