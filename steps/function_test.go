package steps

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]Effect{"write": Write, "read": Read, "destroy": Destroy} {
		got, err := ParseEffect(word)
		if err != nil || got != want || got.String() != word {
			t.Errorf("ParseEffect(%q) = %v, %v", word, got, err)
		}
	}
	for word, want := range map[string]Tier{"read": TierRead, "read_write": TierReadWrite, "admin": TierAdmin} {
		got, err := ParseTier(word)
		if err != nil || got != want || got.String() != word {
			t.Errorf("ParseTier(%q) = %v, %v", word, got, err)
		}
	}
	for _, word := range []string{"", "Read", "none", "readwrite", "write "} {
		_, err := ParseEffect(word)
		if f, _ := fault.As(err); f == nil || f.Code != fault.BadRequest || len(f.Available) != 3 {
			t.Errorf("ParseEffect(%q) fails with %v", word, err)
		}
		_, err = ParseTier(word)
		if f, _ := fault.As(err); f == nil || f.Code != fault.BadRequest || len(f.Available) != 3 {
			t.Errorf("ParseTier(%q) fails with %v", word, err)
		}
	}
	var zero Effect
	if zero != Write || Effect(9).String() != "write" || Tier(9).String() != "admin" {
		t.Error("what is not known must count as the most dangerous")
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec       Spec
		source     string
		repeatable bool
		tier       Tier
	}{
		{Spec{Name: "fs.grep", Effect: Read}, "fs", true, TierRead},
		{Spec{Name: "netbox.device.create"}, "netbox", false, TierReadWrite},
		{Spec{Name: "netbox.device.update", Idempotent: true}, "netbox", true, TierReadWrite},
		{Spec{Name: "netbox.device.delete", Effect: Destroy}, "netbox", false, TierReadWrite},
		{Spec{Name: "netbox.user.list", Effect: Read, Tier: TierAdmin}, "netbox", true, TierAdmin},
		{Spec{Name: "lone", Tier: TierRead}, "", false, TierRead},
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
	if TierRead >= TierReadWrite || TierReadWrite >= TierAdmin {
		t.Error("tiers are not in order")
	}
}
