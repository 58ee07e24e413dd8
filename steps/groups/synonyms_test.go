package groups

import (
	"slices"
	"testing"
)

// TestSynonyms: an action by the name that a web framework gives it names the one that is meant here, and nothing that a caller cannot
// call.
func TestSynonyms(t *testing.T) {
	t.Parallel()
	d := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"device"}}}}).Arrange(registry(t,
		"s.device.create", "s.device.delete", "s.device.get", "s.device.replace", "s.device.update")).Dispatchers[0]
	for action, want := range map[string][]string{
		"retrieve": {"get"}, "destroy": {"delete"}, "partial_update": {"update", "replace"}, "PATCH": {"update", "replace"}, "list": {"get"},
		"index": {"get"}, "deleet": {"delete"},
	} {
		_, faults := d.Read([]byte(`{"resource":"device","action":"` + action + `","params":{}}`))
		if len(faults) != 1 || !slices.Equal(faults[0].Nearest[:min(len(want), len(faults[0].Nearest))], want) {
			t.Errorf("%s: %v, want the nearest %q", action, faults, want)
		}
	}
}
