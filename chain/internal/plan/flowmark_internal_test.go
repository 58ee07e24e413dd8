package plan

import (
	"strconv"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestMarksPastTheirBound: past the bound the whole value has each label, and what it lacks is not covered.
func TestMarksPastTheirBound(t *testing.T) {
	t.Parallel()
	mark := func(label, key string) flowMark {
		return flowMark{Label: steps.Label{Name: label}, path: []schema.Element{{Key: key}}}
	}
	var places, labels []flowMark
	for i := range 3 * maxMarks {
		places = addMark(places, mark("a", strconv.Itoa(i)))
		labels = addMark(labels, mark(strconv.Itoa(i), "x"))
		if i == maxMarks-1 && covered(places, []flowMark{mark("b", "x")}) {
			t.Errorf("%d marks of a cover b", len(places))
		}
	}
	if len(places) != 1 || len(places[0].path) != 0 {
		t.Errorf("many places of one label are %v, want the whole value", places)
	}
	if len(labels) != 3*maxMarks {
		t.Errorf("of %d labels, %d are kept", 3*maxMarks, len(labels))
	}
	if !covered(places, []flowMark{mark("a", "y")}) || covered(places, []flowMark{mark("b", "x")}) {
		t.Error("the whole value with a must cover a anywhere, and no other label")
	}
}
