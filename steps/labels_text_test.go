package steps_test

import (
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestLabelsText: labels are the same after they were a text, each once.
func TestLabelsText(t *testing.T) {
	t.Parallel()
	list := []steps.Label{{Name: "b"}, {Name: "a", Model: true}, {Name: "a"}, {Name: "b"}}
	text := steps.LabelsText(list)
	want := steps.JoinLabels(list, list[:1])
	if got := steps.JoinLabels(steps.ParseLabels(text)); text != "a,b,~a" || !slices.Equal(got, want) || len(want) != 3 {
		t.Errorf("%v is %q, and that is %v, want %v", list, text, got, want)
	}
	if got := steps.ParseLabels(steps.LabelsText(nil)); got != nil {
		t.Errorf("no labels are %v", got)
	}
}
