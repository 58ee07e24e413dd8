package steps_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestParseEffectAndTier(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]steps.Effect{"write": steps.Write, "read": steps.Read, "destroy": steps.Destroy} {
		got, err := steps.ParseEffect(word)
		if err != nil || got != want || got.String() != word {
			t.Errorf("ParseEffect(%q) = %v, %v, want %v", word, got, err, want)
		}
	}
	for word, want := range map[string]steps.Tier{"read": steps.TierRead, "read_write": steps.TierReadWrite, "admin": steps.TierAdmin} {
		got, err := steps.ParseTier(word)
		if err != nil || got != want || got.String() != word {
			t.Errorf("ParseTier(%q) = %v, %v, want %v", word, got, err, want)
		}
	}
	for _, word := range []string{"", "Read", "none", "readwrite", "write "} {
		_, err := steps.ParseEffect(word)
		if f, _ := fault.As(err); f == nil || f.Code != fault.BadRequest || len(f.Available) != 3 {
			t.Errorf("ParseEffect(%q) = %v, want bad_request with 3 choices", word, err)
		}
		_, err = steps.ParseTier(word)
		if f, _ := fault.As(err); f == nil || f.Code != fault.BadRequest || len(f.Available) != 3 {
			t.Errorf("ParseTier(%q) = %v, want bad_request with 3 choices", word, err)
		}
	}
	var zero steps.Effect
	if zero != steps.Write || steps.Effect(9).String() != "write" || steps.Tier(9).String() != "admin" {
		t.Error("an unknown effect or tier is not treated as the most dangerous")
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec       steps.Spec
		source     string
		repeatable bool
		tier       steps.Tier
	}{
		{steps.Spec{Name: "fs.grep", Effect: steps.Read}, "fs", true, steps.TierRead},
		{steps.Spec{Name: "netbox.device.create"}, "netbox", false, steps.TierReadWrite},
		{steps.Spec{Name: "netbox.device.update", Idempotent: true}, "netbox", true, steps.TierReadWrite},
		{steps.Spec{Name: "netbox.device.delete", Effect: steps.Destroy}, "netbox", false, steps.TierReadWrite},
		{steps.Spec{Name: "netbox.user.list", Effect: steps.Read, Tier: steps.TierAdmin}, "netbox", true, steps.TierAdmin},
		{steps.Spec{Name: "lone", Tier: steps.TierRead}, "", false, steps.TierRead},
	}
	for _, test := range tests {
		if got := test.spec.Source(); got != test.source {
			t.Errorf("%s: source %q, want %q", test.spec.Name, got, test.source)
		}
		if got := test.spec.Repeatable(); got != test.repeatable {
			t.Errorf("%s: repeatable %v, want %v", test.spec.Name, got, test.repeatable)
		}
		if got := test.spec.MinimumTier(); got != test.tier {
			t.Errorf("%s: tier %v, want %v", test.spec.Name, got, test.tier)
		}
	}
	if steps.TierRead >= steps.TierReadWrite || steps.TierReadWrite >= steps.TierAdmin {
		t.Error("the tiers are not in ascending order")
	}
}
