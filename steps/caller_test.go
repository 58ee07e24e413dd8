package steps_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	byPath := steps.Spec{Name: "net.list_devices", Path: "net.device.list", Effect: steps.Read}
	for _, test := range []struct {
		tier      steps.Tier
		functions string
		spec      steps.Spec
		want      bool
	}{
		{steps.TierDefault, "", steps.Spec{Name: "a.b", Effect: steps.Read}, true},
		{steps.TierDefault, "", steps.Spec{Name: "a.b"}, false},
		{steps.TierReadWrite, "", steps.Spec{Name: "a.b", Effect: steps.Destroy}, true},
		{steps.TierReadWrite, "", steps.Spec{Name: "a.b", Effect: steps.Read, Tier: steps.TierAdmin}, false},
		{steps.TierAdmin, "", steps.Spec{Name: "a.b", Tier: steps.TierAdmin}, true},
		{steps.TierAdmin, "a.*", steps.Spec{Name: "a.b"}, true},
		{steps.TierAdmin, "b.* a.?", steps.Spec{Name: "a.b"}, true},
		{steps.TierAdmin, "a", steps.Spec{Name: "a.b"}, false},
		{steps.TierAdmin, "*.b", steps.Spec{Name: "a.b.c"}, false},
		{steps.TierAdmin, "A.*", steps.Spec{Name: "a.b"}, false},
		{steps.TierAdmin, "a.(b|c)", steps.Spec{Name: "a.b"}, false},
		{steps.TierRead, "a.*", steps.Spec{Name: "a.b"}, false},
		{steps.TierAdmin, " ", steps.Spec{Name: "a.b"}, false},
		// a pattern fits a name or a path
		{steps.TierRead, "net.device.*", byPath, true},
		{steps.TierRead, "net.list_*", byPath, true},
		{steps.TierRead, "net.device_*", byPath, false},
		{steps.TierRead, "net.device.get", byPath, false},
		// a source whose functions are not known
		{steps.TierRead, "fs.* net.*", steps.Spec{Name: "net.\x00", Effect: steps.Read}, true},
		{steps.TierRead, "fs.* net.*", steps.Spec{Name: "netz.\x00", Effect: steps.Read}, false},
		{steps.TierRead, "net.device.list", steps.Spec{Name: "net.\x00", Effect: steps.Read}, true},
		{steps.TierRead, "net.", steps.Spec{Name: "net.\x00", Effect: steps.Read}, false},
		{steps.TierRead, "*list", steps.Spec{Name: "net.\x00", Effect: steps.Read}, true},
		{steps.TierRead, "n?t*", steps.Spec{Name: "net.\x00", Effect: steps.Read}, true},
		{steps.TierRead, "net.*", steps.Spec{Name: "net.\x00", Effect: steps.Read, Tier: steps.TierAdmin}, false},
	} {
		r := steps.Rights{Tier: test.tier, Functions: test.functions}
		if got := r.Allows(&test.spec); got != test.want {
			t.Errorf("%v allows %q with tier %v: got %t, want %t", r, test.spec.Name, test.spec.MinimumTier(), got, test.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	if all, faults := steps.Patterns(nil); all != "" || len(faults) > 0 {
		t.Errorf("Patterns(nil) = %q, %v, want none", all, faults)
	}
	if two, faults := steps.Patterns([]string{"b.*", "a"}); two != "b.* a" || len(faults) > 0 {
		t.Errorf("got %q, %v, want \"b.* a\"", two, faults)
	}
	if _, faults := steps.Patterns([]string{}); len(faults) != 1 || faults[0].At != "" {
		t.Errorf("Patterns of an empty list: %v, want one fault of the list", faults)
	}
	_, faults := steps.Patterns([]string{"a", "", "a b", strings.Repeat("a", 257), "a\x00", "\xff", "*"})
	var positions []string
	for _, f := range faults {
		positions = append(positions, f.At)
	}
	if want := []string{"/1", "/2", "/3", "/4", "/5"}; !slices.Equal(positions, want) {
		t.Errorf("faults at %q, want %q", positions, want)
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	r := steps.Rights{Functions: "fs.* net.device.lst gone.*"}
	unused := r.Unused([]string{"fs.cat", "net.device.list"}, []string{"gone"})
	if len(unused) != 1 || unused[0].At != "/1" || unused[0].Code != fault.UnknownFunction ||
		!slices.Contains(unused[0].Nearest, "net.device.list") {
		t.Errorf("Unused = %v, want unknown_function at /1 with net.device.list as nearest", unused)
	}
}
