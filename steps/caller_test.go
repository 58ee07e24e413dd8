package steps

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tier      Tier
		functions string
		spec      Spec
		want      bool
	}{
		{TierDefault, "", Spec{Name: "a.b", Effect: Read}, true},
		{TierDefault, "", Spec{Name: "a.b"}, false},
		{TierReadWrite, "", Spec{Name: "a.b", Effect: Destroy}, true},
		{TierReadWrite, "", Spec{Name: "a.b", Effect: Read, Tier: TierAdmin}, false},
		{TierAdmin, "", Spec{Name: "a.b", Tier: TierAdmin}, true},
		{TierAdmin, "a.*", Spec{Name: "a.b"}, true},
		{TierAdmin, "b.* a.?", Spec{Name: "a.b"}, true},
		{TierAdmin, "a", Spec{Name: "a.b"}, false},
		{TierAdmin, "*.b", Spec{Name: "a.b.c"}, false},
		{TierAdmin, "A.*", Spec{Name: "a.b"}, false},
		{TierAdmin, "a.(b|c)", Spec{Name: "a.b"}, false},
		{TierRead, "a.*", Spec{Name: "a.b"}, false},
		{TierAdmin, " ", Spec{Name: "a.b"}, false},
		// a source whose functions are not known
		{TierRead, "fs.* net.*", Spec{Name: "net.\x00", Effect: Read}, true},
		{TierRead, "fs.* net.*", Spec{Name: "netz.\x00", Effect: Read}, false},
		{TierRead, "net.device.list", Spec{Name: "net.\x00", Effect: Read}, true},
		{TierRead, "net.", Spec{Name: "net.\x00", Effect: Read}, false},
		{TierRead, "*list", Spec{Name: "net.\x00", Effect: Read}, true},
		{TierRead, "n?t*", Spec{Name: "net.\x00", Effect: Read}, true},
		{TierRead, "net.*", Spec{Name: "net.\x00", Effect: Read, Tier: TierAdmin}, false},
	} {
		r := Rights{Tier: test.tier, Functions: test.functions}
		if got := r.Allows(&test.spec); got != test.want {
			t.Errorf("%v of %q with tier %v: %t", r, test.spec.Name, test.spec.MinimumTier(), got)
		}
	}
}

// TestAllowsByPath: a pattern fits a function's name or its path.
func TestAllowsByPath(t *testing.T) {
	t.Parallel()
	spec := &Spec{Name: "net.list_devices", Path: "net.device.list", Effect: Read}
	for pattern, want := range map[string]bool{"net.device.*": true, "net.list_*": true, "net.device_*": false, "net.device.get": false} {
		if got := (Rights{Functions: pattern}).Allows(spec); got != want {
			t.Errorf("%s: %t", pattern, got)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	if all, faults := Patterns(nil); all != "" || len(faults) > 0 {
		t.Errorf("%q, %v", all, faults)
	}
	if two, faults := Patterns([]string{"b.*", "a"}); two != "b.* a" || len(faults) > 0 {
		t.Errorf("%q, %v", two, faults)
	}
	if _, faults := Patterns([]string{}); len(faults) != 1 || faults[0].At != "" {
		t.Error(faults)
	}
	_, faults := Patterns([]string{"a", "", "a b", strings.Repeat("a", 257), "a\x00", "\xff", "*"})
	var places []string
	for _, f := range faults {
		places = append(places, f.At)
	}
	if want := []string{"/1", "/2", "/3", "/4", "/5"}; !slices.Equal(places, want) {
		t.Errorf("%q", places)
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	r := Rights{Functions: "fs.* net.device.lst gone.*"}
	unused := r.Unused([]string{"fs.cat", "net.device.list"}, []string{"gone"})
	if len(unused) != 1 || unused[0].At != "/1" || unused[0].Code != fault.UnknownFunction || !slices.Contains(unused[0].Nearest, "net.device.list") {
		t.Error(unused)
	}
}
