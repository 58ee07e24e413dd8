package steps

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestLongDescription: a registry cuts descriptions to the length that clients read, between characters.
func TestLongDescription(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		description string
		want        int // bytes
	}{
		{strings.Repeat("a", schema.MaxDescription), schema.MaxDescription},
		{strings.Repeat("a", schema.MaxDescription+1), schema.MaxDescription},
		{strings.Repeat("é", 1<<20), schema.MaxDescription - 1},
		{"a" + strings.Repeat("é", 1<<20), schema.MaxDescription},
	} {
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Description: test.description}, Call: echo}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := r.All()[0].Spec().Description
		if len(got) != test.want || !utf8.ValidString(got) || strings.HasSuffix(got, "…") != (len(test.description) > schema.MaxDescription) {
			t.Errorf("%d bytes were truncated to %d, want %d: …%s", len(test.description), len(got), test.want, got[len(got)-10:])
		}
	}
}
