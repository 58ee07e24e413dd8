package steps

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for description, want := range map[string]string{
		"":                                 "",
		"Lists devices.":                   "Lists devices",
		"Lists devices. Paged by cursor.":  "Lists devices",
		"Uses e.g. this one. And more.":    "Uses e.g. this one",
		"Needs v1.2 of it. More.":          "Needs v1.2 of it",
		"Two\nlines\n\nof text":            "Two lines of text",
		"Really? Yes.":                     "Really?",
		strings.Repeat("word ", 40):        strings.TrimSpace(strings.Repeat("word ", 23)) + "…",
		strings.Repeat("é", 200):           strings.Repeat("é", 119) + "…",
		"See https://example.com/a.b now.": "See https://example.com/a.b now",
	} {
		e := &Entry{compiled: &compiled{spec: &Spec{Description: description}}}
		if got := e.Summary(); got != want {
			t.Errorf("Summary of %q is %q, want %q", description, got, want)
		}
	}
}

// TestLongDescription: a registry cuts descriptions to what clients read, between characters.
func TestLongDescription(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		description string
		want        int // bytes
	}{
		{strings.Repeat("a", MaxDescription), MaxDescription},
		{strings.Repeat("a", MaxDescription+1), MaxDescription},
		{strings.Repeat("é", 1<<20), MaxDescription - 1},
		{"a" + strings.Repeat("é", 1<<20), MaxDescription},
	} {
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Description: test.description}, Call: echo}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := r.All()[0].Spec().Description
		if len(got) != test.want || !utf8.ValidString(got) || strings.HasSuffix(got, "…") != (len(test.description) > MaxDescription) {
			t.Errorf("%d bytes become %d: …%s", len(test.description), len(got), got[len(got)-10:])
		}
	}
}
