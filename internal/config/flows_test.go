package config

import (
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestLabelPresets: each preset can be read, says something, and has both labels and roles.
func TestLabelPresets(t *testing.T) {
	t.Parallel()
	for name, list := range LabelPresets {
		labels, roles := 0, 0
		for _, preset := range list {
			if preset.Gives != "" {
				_, faults := steps.ParseGives([]byte(preset.Gives))
				for _, f := range faults {
					t.Errorf("%s %s: %v", name, preset.Pattern, f)
				}
			}
			if preset.Takes != "" {
				_, faults := steps.ParseTakes([]byte(preset.Takes))
				for _, f := range faults {
					t.Errorf("%s %s: %v", name, preset.Pattern, f)
				}
			}
			gives, takes := preset.Labels()
			labels, roles = labels+len(gives), roles+len(takes)
			if len(gives)+len(takes) == 0 {
				t.Errorf("%s %s says nothing", name, preset.Pattern)
			}
		}
		if labels == 0 || roles == 0 {
			t.Errorf("%s has %d labels and %d roles, want some of both", name, labels, roles)
		}
	}
}
