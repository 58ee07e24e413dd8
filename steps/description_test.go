package steps

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLongDescription: a registry cuts descriptions to MaxDescription, between characters; without it, none.
func TestLongDescription(t *testing.T) {
	t.Parallel()
	const limit = 2048
	for _, test := range []struct {
		description string
		limit, want int // bytes
	}{
		{strings.Repeat("a", limit), limit, limit},
		{strings.Repeat("a", limit+1), limit, limit},
		{strings.Repeat("é", 1<<20), limit, limit - 1},
		{"a" + strings.Repeat("é", 1<<20), limit, limit},
		{strings.Repeat("é", 1<<20), 0, 1 << 21},
	} {
		o := &RegistryOptions{MaxDescription: test.limit}
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Description: test.description}, Call: echo}}, o)
		if err != nil {
			t.Fatal(err)
		}
		got := r.All()[0].Spec().Description
		if len(got) != test.want || !utf8.ValidString(got) || strings.HasSuffix(got, "…") != (len(got) < len(test.description)) {
			t.Errorf("%d bytes were truncated to %d, want %d: …%s", len(test.description), len(got), test.want, got[len(got)-10:])
		}
	}
}
